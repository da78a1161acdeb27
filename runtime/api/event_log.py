"""Events of runs, kept a batch a document: `run_events/{run_id}.{first_sequence}`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtime.api.json_value import encode, off_loop
from runtime.api.run_record import RunRecord
from runtime.api.run_store import CALL_SECONDS, Beside
from runtime.contract import names
from runtime.ports.documents import Document, Documents, Filter, Key, Operator, Query

PAGE_BATCHES: Final = 4
"""Most batches of one page: at CALLBACK_BATCH_BYTES each, 2 MiB."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a run.

    Attributes:
        id: the same over retries of its callback.
        sequence: from 0, without holes, over all attempts.
        event_type: `[a-z][a-z0-9_]{0,63}`.
        payload: JSON value.
        timestamp: as the worker gave it.
    """

    id: str
    sequence: int
    event_type: str
    payload: object
    timestamp: object

    def shown(self) -> dict[str, object]:
        """As callers see it."""
        return {
            "id": self.id,
            "sequence": self.sequence,
            "event_type": self.event_type,
            "payload": self.payload,
            "timestamp": self.timestamp,
        }


def batch_document(record: RunRecord, events: Sequence[Event]) -> Beside:
    """The document of the events that a record accepts next."""
    first, last = events[0].sequence, events[-1].sequence
    return Beside(
        Key(names.RUN_EVENTS, f"{record.run_id}.{first:012d}"),
        {
            "run_id": record.run_id,
            "submission_id": record.submission_id,
            "first_sequence": first,
            "last_sequence": last,
            # One value of bytes: a member per event would be indexed, and a document's types hold less than JSON.
            "events": encode([event.shown() for event in events]),
        },
    )


class EventLog:
    """Reads events."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def read(self, record: RunRecord, after: int, batches: int = PAGE_BATCHES) -> list[dict[str, object]]:
        """Events of a run from sequence `after` + 1 on, in order; at most `batches` documents of them.

        Events that the record does not know yet are left for the next read; ones that were already deleted are
        missing.
        """
        if after + 1 >= record.next_sequence:
            return []
        query = Query(
            names.RUN_EVENTS,
            where=[
                Filter("run_id", Operator.EQUAL, record.run_id),
                Filter("last_sequence", Operator.GREATER, after),
            ],
            order_by="last_sequence",
            limit=batches,
        )
        found = await self._documents.query(query, timeout=CALL_SECONDS)
        # Events of an earlier run of the same id may still be there, see `submission_id`.
        stored = [_stored(document) for document in found if document.data.get("submission_id") == record.submission_id]
        events = await off_loop(
            sum(map(len, stored)), lambda: [event for batch in stored for event in json.loads(batch)]
        )
        return [event for event in events if after < _sequence(event) < record.next_sequence]


def _stored(document: Document) -> bytes:
    stored = document.data.get("events")
    return stored if isinstance(stored, bytes) else b"[]"


def _sequence(event: dict[str, object]) -> int:
    sequence = event.get("sequence")
    return sequence if isinstance(sequence, int) else -1
