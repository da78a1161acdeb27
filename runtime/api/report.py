"""What workers send: the two callback bodies, read whole before anything is decided."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Final

from runtime.api.event_log import Event
from runtime.api.fields import Fields
from runtime.api.json_value import decode, encode, faults_of
from runtime.api.problem import FieldFault, Problem
from runtime.api.transitions import Ending, Holder, Note
from runtime.contract.limits import CALLBACK_BATCH_BYTES, CALLBACK_BATCH_EVENTS, EVENT_BYTES, INLINE_PAYLOAD_BYTES
from runtime.contract.states import FailureClass, ProgressStatus

LEASE_MS_MAX: Final = 3_600_000
BATCH_BODY_BYTES: Final = CALLBACK_BATCH_BYTES * 3 // 2
"""Largest body of an events callback: the sender's limit is on its events, and what surrounds them has room here."""
ERROR_LENGTH: Final = 2000
"""Characters kept of an error's text."""

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,128}")
_JOB_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_STEP: Final = re.compile(r".{0,256}", re.DOTALL)
_ANY_TEXT: Final = re.compile(r".*", re.DOTALL)
_EVENT_ID: Final = re.compile(r"evt-[0-9a-f]{64}")
_EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SEQUENCE_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """One progress callback.

    Attributes:
        holder: who calls.
        lease_duration: wanted lease; None leaves it to the API, zero gives the lease back.
        note: what a running attempt says of itself.
        ending: of a terminal status; None takes or renews the lease.
        result: JSON of the result that is stored beside; None where there is none.
        refused_result: True where the result cannot be kept: `ending` then says so in place of what was sent, because
            a run must end truthfully even then.
    """

    holder: Holder
    lease_duration: timedelta | None
    note: Note
    ending: Ending | None
    result: bytes | None
    refused_result: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    """One events callback.

    Attributes:
        holder: who calls.
        events: at least one, their sequences in order.
        gap: True where a sequence is missing among them.
    """

    holder: Holder
    events: tuple[Event, ...]
    gap: bool


def read_progress(body: bytes) -> ProgressReport:
    """Reads a progress callback.

    Raises:
        Problem: 400 with every fault.
    """
    value = decode(body)
    faults, in_result = _split(faults_of(value, exact=False))
    _refuse(faults)
    fields = Fields(value, faults)
    holder = _holder(fields)
    fields.need("status", f"one of {', '.join(ProgressStatus)}")
    status = fields.word("status", ProgressStatus) or ProgressStatus.RUNNING
    lease_ms = fields.integer("lease_duration_ms", 0, LEASE_MS_MAX)
    note = Note(
        progress=fields.number("progress", 0, 100),
        current_step=fields.text("current_step", _STEP, "a string of at most 256 characters"),
        last_failure_class=fields.word("last_failure_class", FailureClass),
    )
    failure_class = fields.word("failure_class", FailureClass)
    status_code = fields.integer("status_code", 100, 599)
    error = fields.text("error", _ANY_TEXT, "a string")
    if status is ProgressStatus.COMPLETED and (failure_class is not None or (status_code or 200) >= 400):
        fields.fault(
            "status", "a run with a failure class or a status code of 400 or more is `failed`, not `completed`"
        )
    _refuse(faults)
    result, refusal = _result(fields.raw("result"), in_result)
    ending = Ending(
        status=status,
        status_code=status_code,
        failure_class=failure_class,
        last_failure_class=note.last_failure_class,
        error=None if error is None else error[:ERROR_LENGTH],
        has_result=result is not None,
    )
    if refusal is not None:
        ending = Ending(
            status=ProgressStatus.FAILED, failure_class=FailureClass.RESULT_STORE_ERROR, error=refusal[:ERROR_LENGTH]
        )
    return ProgressReport(
        holder=holder,
        lease_duration=None if lease_ms is None else timedelta(milliseconds=lease_ms),
        note=note,
        ending=None if status is ProgressStatus.RUNNING else ending,
        result=result,
        refused_result=refusal is not None,
    )


def read_events(body: bytes) -> EventReport:
    """Reads an events callback.

    Raises:
        Problem: 400 with every fault, 413 above BATCH_BODY_BYTES.
    """
    if len(body) > BATCH_BODY_BYTES:
        raise Problem(413, "batch_too_large", f"the batch is {len(body)} bytes, at most {BATCH_BODY_BYTES} are kept")
    value = decode(body)
    faults = faults_of(value, exact=False)
    _refuse(faults)
    fields = Fields(value, faults)
    holder = _holder(fields)
    items = fields.raw("events")
    if not isinstance(items, list) or not 1 <= len(items) <= CALLBACK_BATCH_EVENTS:
        fields.fault("events", f"must be a list of 1 to {CALLBACK_BATCH_EVENTS} events")
        items = []
    events = tuple(_event(item, faults, index) for index, item in enumerate(items))
    steps = [after.sequence - before.sequence for before, after in pairwise(events)]
    if any(step < 1 for step in steps):
        fields.fault("events", "must be in the order of their sequences, each once")
    _refuse(faults)
    return EventReport(holder=holder, events=events, gap=any(step > 1 for step in steps))


def _split(faults: list[FieldFault]) -> tuple[list[FieldFault], list[FieldFault]]:
    """The faults of a report, and those of its result: user data that cannot be kept is no fault of the worker."""
    in_result = [fault for fault in faults if f"{fault.pointer}/".startswith("/result/")]
    return [fault for fault in faults if fault not in in_result], in_result


def _result(value: object, faults: list[FieldFault]) -> tuple[bytes | None, str | None]:
    """The JSON to keep, or why it cannot be kept."""
    if faults:
        return None, f"the run's result cannot be kept: {faults[0].pointer} {faults[0].detail}"
    result = None if value is None else encode(value)
    if result is None or len(result) <= INLINE_PAYLOAD_BYTES:
        return result, None
    return None, (
        f"the run's result is {len(result)} bytes, at most {INLINE_PAYLOAD_BYTES} can be kept; write it where the "
        "caller can read it and return its address"
    )


def _holder(fields: Fields) -> Holder:
    fields.need("job_id", "the job that the token is for")
    fields.need("lease_token", "the token of this attempt's lease")
    return Holder(
        job_id=fields.text("job_id", _JOB_ID, "1 to 128 printable characters") or "",
        lease_token=fields.text("lease_token", _TOKEN, "1 to 128 printable characters without blanks") or "",
    )


def _event(item: object, faults: list[FieldFault], index: int) -> Event:
    fields = Fields(item, faults, ("events", index))
    for name in ("id", "sequence", "event_type"):
        fields.need(name, "every event has it")
    event = Event(
        id=fields.text("id", _EVENT_ID, "`evt-` and 64 hex digits") or "",
        sequence=fields.integer("sequence", 0, _SEQUENCE_MAX) or 0,
        event_type=fields.text("event_type", _EVENT_TYPE, "up to 64 lower case letters, digits and _") or "",
        payload=fields.raw("payload"),
        timestamp=fields.raw("timestamp"),
    )
    if not isinstance(event.timestamp, (str, int, float)) or isinstance(event.timestamp, bool):
        fields.fault("timestamp", "must be a time, as text or as a number")
    if len(encode(event.payload)) > EVENT_BYTES:
        fields.fault("payload", f"is over {EVENT_BYTES} bytes")
    return event


def _refuse(faults: list[FieldFault]) -> None:
    if faults:
        raise Problem(400, "invalid_callback", "the callback was not understood", faults=faults)
