"""Events of a run: which names user code may use, and the form that goes to the API."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from runtime.contract.states import ProgressStatus
from runtime.execution.values import one_line

EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")

RESERVED: Final = frozenset(
    {"cancelled", "completed", "error", "failed", "heartbeat", "node_end", "node_start", "run_initiated", "timeout"}
)
"""Names that readers of a stream take for the platform's word on the run; user code cannot forge them."""


STEP_CHARACTERS: Final = 256
"""Longest `current_step` that the API keeps."""

LAST_EVENT: Final[Mapping[ProgressStatus, tuple[str, object]]] = MappingProxyType(
    {
        ProgressStatus.COMPLETED: ("log", {"level": "info", "message": "Execution completed"}),
        ProgressStatus.FAILED: ("error", {"message": "Execution failed"}),
        ProgressStatus.TIMEOUT: ("error", {"message": "Execution timeout"}),
        ProgressStatus.CANCELLED: ("error", {"message": "Execution cancelled"}),
    }
)
"""The executor's own last word in a run's events."""


def event_type_fault(event_type: object) -> str | None:
    """Why user code may not emit an event of this type; None where it may."""
    if not isinstance(event_type, str) or EVENT_TYPE.fullmatch(event_type) is None:
        return "an event's type must be 1 to 64 lower case letters, digits and _, starting with a letter"
    if event_type in RESERVED:
        return f"the event type {event_type!r} is the platform's own; choose another name"
    return None


def progress_note(payload: Mapping[object, object]) -> tuple[int | None, str | None]:
    """What a `progress` event says for the run's record: whole per cent and step, None where it does not say."""
    value, step = payload.get("progress"), payload.get("current_step")
    percent = None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
        percent = int(value)
    return percent, one_line(step, STEP_CHARACTERS) if isinstance(step, str) else None


def event_id(run_id: str, attempt: int, sequence: int) -> str:
    """The same id for the same event however often it is sent."""
    return "evt-" + hashlib.sha256(f"{run_id}:{attempt}:{sequence}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event as it is sent.

    Attributes:
        id: see event_id.
        sequence: position in the run, over all attempts, from 0, without gaps.
        event_type: see EVENT_TYPE.
        payload: encoded JSON value.
        timestamp: when the engine emitted it, RFC 3339 in UTC.
    """

    id: str
    sequence: int
    event_type: str
    payload: bytes
    timestamp: str

    def encoded(self) -> bytes:
        """The event as a JSON object; every part but the payload is of a fixed alphabet."""
        head = f'{{"id":"{self.id}","sequence":{self.sequence},"event_type":"{self.event_type}","payload":'
        return head.encode() + self.payload + f',"timestamp":"{self.timestamp}"}}'.encode()
