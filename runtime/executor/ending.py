"""How a run ended, as its caller, its readers and the API are told."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from runtime.contract.states import STATE_OF_PROGRESS, STATUS_CODE_OF_STATE, FailureClass, ProgressStatus, RunState
from runtime.execution.answer import cancelled, failed, kept_result
from runtime.execution.values import one_line
from runtime.ports.engine import RunResult

FATAL: Final = 4
"""`log_level` of a run that never began, or was cut off; 0 where nothing is known."""


class Stop(StrEnum):
    """Why a run is stopped from outside."""

    CALLER_LEFT = "caller_left"
    """Nobody waits for the answer any more."""
    CANCEL_REQUESTED = "cancel_requested"
    """The run's owner asked for it."""
    LEASE_LOST = "lease_lost"
    """The API says that the run is not this attempt's."""
    SLOW_CONSUMER = "slow_consumer"
    """The stream's reader takes nothing."""
    DRAINING = "draining"
    """The process goes away."""


def stopped(why: Stop) -> RunResult:
    """The result of a run that was stopped."""
    if why in (Stop.CALLER_LEFT, Stop.CANCEL_REQUESTED):
        return cancelled()
    text, code, failure_class = _STOPPED[why]
    return failed(text, status_code=code, failure_class=failure_class)


_STOPPED: Final = {
    Stop.LEASE_LOST: ("lease lost: another attempt has the run, or it has ended", 503, FailureClass.DISPATCH_ERROR),
    Stop.SLOW_CONSUMER: ("slow_consumer: the stream's reader took nothing in time", 503, FailureClass.BACKPRESSURE),
    Stop.DRAINING: ("executor draining", 503, FailureClass.DISPATCH_ERROR),
}  # fmt: skip


class Ending(Struct, frozen=True, kw_only=True):
    """A run's end.

    Attributes:
        run_id: the run.
        result: as it can be recorded.
        output: encoded; None where there is none.
        milliseconds: from the start of the run to its end, reports not counted.
        step: where it failed before its engine began; None otherwise.
        reported: whether the API has acknowledged this end.
        events_dropped: events that the API has not acknowledged.
    """

    run_id: str
    result: RunResult
    output: bytes | None
    milliseconds: int
    step: str | None = None
    reported: bool = False
    events_dropped: int = 0

    @property
    def state(self) -> RunState:
        """The run state that it stands for."""
        return STATE_OF_PROGRESS[self.result.status]

    @property
    def status_code(self) -> int:
        """User code's own, or the default of the state."""
        return self.result.status_code or STATUS_CODE_OF_STATE[self.state]

    def answer(self) -> bytes:
        """The body of `POST /execute`."""
        return _encoder.encode(self._body())

    def last_event(self) -> bytes:
        """The payload of `completed`, encoded."""
        fatal = self.step is not None or self.result.status is ProgressStatus.TIMEOUT
        return _encoder.encode({**self._body(), "log_level": FATAL if fatal else 0})

    def _body(self) -> dict[str, object]:
        result = self.result
        body: dict[str, object] = {
            "run_id": self.run_id,
            "status": _STATUS.get(result.status, "failed"),
            "state": self.state.value,
            "status_code": self.status_code,
            "duration_ms": self.milliseconds,
        }
        if self.output is not None:
            body["result"] = msgspec.Raw(self.output)
        optional = {
            "error": None if result.error is None else one_line(result.error),
            "failure_class": result.failure_class,
            "current_step": self.step,
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        if not self.reported:
            body["callback_failed"] = True
        if self.events_dropped:
            body["events_dropped"] = self.events_dropped
        return body


_STATUS: Final = {ProgressStatus.COMPLETED: "completed", ProgressStatus.CANCELLED: "cancelled"}
_encoder: Final = msgspec.json.Encoder()


def ending(run_id: str, result: RunResult, milliseconds: int, step: str | None = None) -> Ending:
    """The end that a result makes, not yet reported."""
    kept, output = kept_result(result)
    return Ending(run_id=run_id, result=kept, output=output, milliseconds=milliseconds, step=step)
