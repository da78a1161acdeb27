"""One run in the hands of the executor: handed over once, followed to its end, its record ended whatever happens."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

import structlog

from runtime.api.executor_client import ANSWER_SECONDS, ExecutorClient, ExecutorStream
from runtime.api.executor_errors import ExecutorBroken, ExecutorError, ExecutorUnavailable
from runtime.api.executor_messages import COMPLETED, Message
from runtime.api.json_value import off_loop
from runtime.api.run_end import RunEnd, completed_message
from runtime.api.run_record import WAITED_GRACE, RunRecord
from runtime.execution.tasks import end, first_done
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock

HANDOVER_SECONDS: Final = 60.0
"""How long an executor is looked for that takes the job."""
FIRST_PAUSE: Final = 0.25
"""Upper end of the first pause between two calls, seconds; it doubles up to LONGEST_PAUSE."""
LONGEST_PAUSE: Final = 5.0

_NOT_RECORDED: Final = frozenset({"", "run_initiated", COMPLETED})
"""Of a stream's messages those that are no event of the record: signs of life, its beginning and its end."""

log = structlog.get_logger()


class ReaderGone(Exception):
    """The caller takes nothing any more; the run goes on without it."""


class Reader(Protocol):
    """A caller that follows a run. It never makes the run wait: it keeps up, or it is gone."""

    def begin(self, record: RunRecord) -> None:
        """The executor has taken the run."""
        ...

    def write(self, messages: Sequence[Message]) -> None:
        """Takes events; `completed` is the last one.

        Raises:
            ReaderGone
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What one execution is made of.

    Attributes:
        record: as it was created.
        payload: as stored, see RunRequest.
        lease_token: of the lease that the run was created with.
        reader: None where the caller waits for the result alone.
    """

    record: RunRecord
    payload: bytes = field(repr=False)
    lease_token: str = field(repr=False)
    reader: Reader | None = None


class Execution:
    """Works one handover.

    A call is repeated only where nothing of the job was begun. Once it may have been, the connection's end is the
    run's: its record is ended by compare-and-set, and an executor that still works hears so and stops.

    Args:
        handover: the run.
        sign: gives the signed job, encoded; CPU work.
        client: the executor.
        run_end: ends records.
        clock: time.
        metrics: counts calls.

    Attributes:
        begun: whether the executor has taken the job.
        failure: why the run has failed on its way through the executor; None where it has not, or still goes on.
    """

    def __init__(
        self,
        handover: Handover,
        sign: Callable[[], bytes],
        client: ExecutorClient,
        run_end: RunEnd,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._handover = handover
        self._record = handover.record
        self._reader = handover.reader
        self._sign = sign
        self._client = client
        self._run_end = run_end
        self._clock = clock
        self._metrics = metrics
        self._leaving = asyncio.Event()
        self._told = 0
        self.begun = False
        self.failure: ExecutorError | None = None

    def leave(self) -> None:
        """Lets go of the run: the process goes away, the executor goes on and reports by itself."""
        self._leaving.set()

    async def execute(self) -> None:
        """Follows the run to its end. Ends the record where nobody else does."""
        work = asyncio.create_task(self._worked(), name="call the executor")
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await first_done(self._clock, None, work, leaving)
            if not work.done() and self.begun:
                self._metrics.executor_calls.labels("left").inc()
                log.info("execution_left", run_id=self._record.run_id)
                return
            if work.done():
                last = work.result()
            else:
                last = ExecutorUnavailable("this instance is going away, and no executor had taken the run")
        finally:
            await end(work, leaving)
        await self._ended(last)

    async def _worked(self) -> Message | ExecutorError:
        """`completed`, or why it did not come."""
        async with AsyncExitStack() as stack:
            try:
                job = await off_loop(len(self._handover.payload), self._sign)
                stream = await self._handed_over(stack, job)
                self.begun = True
                if self._reader is not None:
                    self._reader.begin(self._record)
                return await self._follow(stream)
            except ExecutorError as error:
                return error
            except Exception:
                # Whatever fails here, the run must not stay open: nobody else works it.
                log.exception("execution_failed", run_id=self._record.run_id)
                return ExecutorBroken("internal: the API failed to follow the run; the fault is in its log")

    async def _handed_over(self, stack: AsyncExitStack, job: bytes) -> ExecutorStream:
        latest = self._clock.monotonic() + HANDOVER_SECONDS
        longest = self._record.timeout + timedelta(seconds=ANSWER_SECONDS) + WAITED_GRACE
        pause = FIRST_PAUSE
        while True:
            try:
                return await stack.enter_async_context(self._client.opened(job, longest))
            except ExecutorUnavailable as error:
                self._metrics.executor_calls.labels("not_taken").inc()
                log.info("executor_unavailable", run_id=self._record.run_id, error=error.line())
                wait = random.uniform(pause / 2, pause)  # noqa: S311 - spreads retries
                if self._clock.monotonic() + wait > latest:
                    raise
                await self._clock.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _follow(self, stream: ExecutorStream) -> Message:
        while messages := await stream.some():
            last = next((number for number, message in enumerate(messages) if message.event_type == COMPLETED), None)
            self._tell(messages[:last])
            if last is not None:
                return messages[last]
        raise ExecutorBroken("the executor's stream ended before the run did")

    async def _ended(self, last: Message | ExecutorError) -> None:
        if isinstance(last, Message):
            told = await off_loop(len(last.data), lambda: _payload(last))
            if told is not None and "callback_failed" not in told:
                self._metrics.executor_calls.labels("completed").inc()
                self._tell([last])
                return
            report = self._run_end.as_told(self._record.job_id, self._handover.lease_token, told)
        else:
            self.failure = last
            log.warning("executor_failed", run_id=self._record.run_id, error=last.line())
            report = self._run_end.as_failed(self._record.job_id, self._handover.lease_token, last)
        self._metrics.executor_calls.labels(last.code if isinstance(last, ExecutorError) else "unreported").inc()
        ended = await self._run_end.record(self._record.run_id, report)
        if ended is None:
            return
        if report.ending is not None and ended[0].error != report.ending.error:
            self.failure = None  # whoever was first knows better
        if self.begun and self._is_all_told(last, ended[0]):
            self._tell([completed_message(*ended)])

    def _is_all_told(self, last: Message | ExecutorError, record: RunRecord) -> bool:
        """Whether the caller has every event that anybody can have.

        Behind a stream that broke it may not: events that were on their way are in the record, and `completed` after
        the gap would deny it. Where the run is lost as well, and the record has no more than was told, nobody has.
        """
        if isinstance(last, Message):
            return True
        return self.failure is not None and record.next_sequence <= self._told

    def _tell(self, messages: Sequence[Message]) -> None:
        self._told += sum(message.event_type not in _NOT_RECORDED for message in messages)
        if self._reader is not None and messages:
            try:
                self._reader.write(messages)
            except ReaderGone:
                self._reader = None


def _payload(message: Message) -> dict[str, object] | None:
    """What `completed` says; None where it cannot be read."""
    try:
        event = json.loads(message.data)
    except (ValueError, RecursionError):
        return None
    payload = event.get("payload") if isinstance(event, dict) else None
    return payload if isinstance(payload, dict) else None
