"""What a push worker works on, seen from the delivery: read a message, run it, give it up."""

from __future__ import annotations

import asyncio
from typing import Protocol

from msgspec import Struct

from runtime.contract.envelope import PushEnvelope
from runtime.contract.errors import HoldfastError
from runtime.contract.states import FailureClass


class JobFacts(Struct, frozen=True, kw_only=True):
    """What a dead letter says about the job. None: not readable, or not of this kind of message.

    Attributes:
        run_id: the run.
        job_id: the run's generation.
        app_id: the caller's application.
        engine: the run's engine.
        max_attempts: the run's own ceiling; None leaves the worker's alone.
    """

    run_id: str | None = None
    job_id: str | None = None
    app_id: str | None = None
    engine: str | None = None
    max_attempts: int | None = None


NO_FACTS = JobFacts()


class Ended(Struct, frozen=True):
    """How the work on a message ended.

    Attributes:
        code: of the outcomes table.
        error: one line for people; "" where nothing failed.
        failure_class: true cause; None leaves it to the code.
    """

    code: str
    error: str = ""
    failure_class: FailureClass | None = None


class Job(Protocol):
    """A message that could be read."""

    @property
    def facts(self) -> JobFacts:
        """For the dead letter, and the run's own ceiling."""
        ...

    async def run(self, *, deadline: float, stop: asyncio.Event) -> Ended | None:
        """Does the work. Nothing of it is left running when this returns.

        Args:
            deadline: of the whole delivery, on the monotonic clock; the work ends itself by then, and leaves the
                settle budget before it to its own reports.
            stop: set when the work is to end soon and leave its message to a later delivery.

        Returns:
            None where it ended because of `stop`.

        Raises:
            EngineStillRunning: something is left running after all.
        """
        ...

    async def give_up(
        self, failure_class: FailureClass, last: FailureClass | None, error: str, *, deadline: float
    ) -> None:
        """Records the end of a job whose message is dead-lettered, retrying until `deadline`, on the monotonic clock.

        May raise: its caller bounds it and logs what it raises.
        """
        ...


class UnusableMessage(HoldfastError):
    """A message that no delivery can work on.

    Attributes:
        facts: what could be read of it.
        job: for `Job.give_up`, where the message is known to be genuine; None otherwise.
    """

    code = "invalid_execution_payload"

    def __init__(self, message: str, *, code: str, facts: JobFacts = NO_FACTS, job: Job | None = None) -> None:
        super().__init__(message, code=code)
        self.facts = facts
        self.job = job


class Workload(Protocol):
    """One kind of work."""

    @property
    def failed_code(self) -> str:
        """The retryable outcome where the work raises what it should not."""
        ...

    async def read(self, message: PushEnvelope) -> Job:
        """Decodes and verifies a message; touches nothing outside the process.

        Raises:
            UnusableMessage
        """
        ...

    async def close(self) -> None:
        """Releases connections."""
        ...
