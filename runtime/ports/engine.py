"""What runs a job: one call, one result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.states import FailureClass, ProgressStatus


class Isolation(StrEnum):
    """Where an engine's work happens."""

    INLINE = "inline"
    """On the event loop, under the engine's own limits."""
    PROCESS = "process"
    """In a process of its own per run, killed on deadline or cancellation."""


class Emit(Protocol):
    """Hands an event of the running job to its stream; waits while the stream is full."""

    def __call__(self, event_type: str, payload: object) -> Awaitable[None]:
        """Args: event_type: `[a-z][a-z0-9_]{0,63}`; payload: JSON value, at most EVENT_BYTES encoded."""
        ...


class RunContext(Struct, frozen=True):
    """Everything that an engine may know of its run.

    Attributes:
        run_id: stable over attempts; user code's idempotency key.
        attempt: 1 for the first attempt that works.
        spec: engine-specific definition: the flow's graph, or empty for an entry point.
        input: the caller's JSON value.
        seconds_left: time until the run's deadline when the engine starts.
        emit: see Emit.
        cancelled: set when the run is to stop; the engine then ends soon with CANCELLED.
    """

    run_id: str
    attempt: int
    spec: Mapping[str, object]
    input: object
    seconds_left: float
    emit: Emit
    cancelled: asyncio.Event


class RunResult(Struct, frozen=True):
    """How a run ended. The engine never raises for user code's faults: they are results.

    Attributes:
        status: COMPLETED, FAILED, TIMEOUT or CANCELLED.
        output: JSON value of a completed run; None otherwise or where there is none.
        status_code: user code's own status; None means the default of the state.
        error: one line, safe to show to the caller; None where nothing failed.
        failure_class: None for COMPLETED and CANCELLED.
    """

    status: ProgressStatus
    output: object = None
    status_code: int | None = None
    error: str | None = None
    failure_class: FailureClass | None = None


class EngineStillRunning(HoldfastError):
    """Something of a run could not be stopped and may go on writing: no other attempt may be let in before its time."""

    code = "engine_still_running"
    decision = Decision.RETRY


class Engine(Protocol):
    """A way to run jobs."""

    @property
    def isolation(self) -> Isolation:
        """Where the work happens."""
        ...

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """Faults of a definition as (JSON pointer, what is wrong); empty where it can run. Pure, bounded."""
        ...

    async def run(self, context: RunContext) -> RunResult:
        """Runs to the end, to the deadline or to cancellation, and leaves nothing running behind.

        Raises:
            EngineStillRunning: it does; also in place of a cancellation.
        """
        ...
