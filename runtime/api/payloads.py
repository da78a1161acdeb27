"""The documents that stand beside a run: its payload and its result, each as bytes of JSON.

As bytes because a document's own types hold less than JSON does (no list in a list), index every member, and would
not give back the same bytes.
"""

from __future__ import annotations

from runtime.api.run_store import CALL_SECONDS, Beside
from runtime.contract import names
from runtime.ports.documents import Documents, Key

PAYLOAD = "payload"
RESULT = "result"


def payload_document(run_id: str, payload: bytes) -> Beside:
    """The document of a run's definition and input."""
    return Beside(Key(names.RUN_PAYLOADS, run_id), {"run_id": run_id, PAYLOAD: payload})


def result_document(run_id: str, result: bytes) -> Beside:
    """The document of a run's result."""
    return Beside(Key(names.RUN_RESULTS, run_id), {"run_id": run_id, RESULT: result})


class Payloads:
    """Reads what stands beside a run."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def payload(self, run_id: str) -> bytes | None:
        """Definition and input; None where they are gone."""
        return await self._bytes(Key(names.RUN_PAYLOADS, run_id), PAYLOAD)

    async def result(self, run_id: str) -> bytes | None:
        """The result's JSON; None where there is none, or none any more."""
        return await self._bytes(Key(names.RUN_RESULTS, run_id), RESULT)

    async def _bytes(self, key: Key, field: str) -> bytes | None:
        document = await self._documents.get(key, timeout=CALL_SECONDS)
        value = None if document is None else document.data.get(field)
        return value if isinstance(value, bytes) else None
