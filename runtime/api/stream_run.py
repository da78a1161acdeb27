"""Runs whose callers follow them: one caller gets the executor's stream, a repeated request the record's events."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web

from runtime.api.backlog import Backlog, Backlogs
from runtime.api.event_feed import EventFeed, Page
from runtime.api.event_stream import KEEP_ALIVE_SECONDS
from runtime.api.execution import ReaderGone
from runtime.api.executions import Executions
from runtime.api.executor_errors import ExecutorError, ExecutorUnavailable
from runtime.api.executor_messages import Message, as_message
from runtime.api.json_value import encode
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem, unavailable
from runtime.api.run_end import completed_message
from runtime.api.run_record import RunRecord
from runtime.api.run_request import RunRequest
from runtime.api.run_view import timestamp
from runtime.api.stream_answer import StreamAnswer, stream_form
from runtime.contract.errors import HoldfastError
from runtime.execution.tasks import end, first_done
from runtime.http.presence import LOOK_SECONDS, caller_left, is_gone
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock

_KEEP_ALIVE: Final = Message(b": keep-alive\n\n", "", b"")

log = structlog.get_logger()


class StreamRuns:
    """Streams runs.

    Args:
        executions: hands runs over.
        feed: follows records.
        payloads: reads results.
        clock: for keep-alives and stalls.
        metrics: counts how streams end.
        seconds: longest stream of a record; the caller repeats its request.
    """

    def __init__(
        self,
        executions: Executions,
        feed: EventFeed,
        payloads: Payloads,
        clock: Clock,
        metrics: Metrics,
        seconds: float,
    ) -> None:
        self._executions = executions
        self._feed = feed
        self._payloads = payloads
        self._clock = clock
        self._metrics = metrics
        self._seconds = seconds
        self._backlogs = Backlogs()

    async def answer(self, request: web.Request, wanted: RunRequest, user_id: str) -> web.StreamResponse:
        """Streams a run to its end. A caller that leaves, or takes nothing for long, leaves the run going on.

        Raises:
            Problem: 406 `not_acceptable`; see `Submissions.submit`; 502 and 503 with the executor error's code where
                no executor took the run, which then has ended.
        """
        answer = StreamAnswer(request, stream_form(request), Backlog(self._backlogs), self._clock, self._metrics)
        try:
            begun = await self._executions.begin(wanted, user_id, answer)
            if begun.running is not None:
                await self._carry(answer, begun.running.task)
                failure = begun.running.execution.failure
                if failure is not None and not answer.begun:
                    raise _not_begun(begun.record, failure)
            if not answer.begun and not is_gone(request):
                await self._carry_record(answer, begun.record)
            if not answer.begun:
                raise caller_left()
            return await answer.ended()
        finally:
            answer.leave()

    async def _carry_record(self, answer: StreamAnswer, record: RunRecord) -> None:
        following = asyncio.create_task(self._follow(answer, record), name="follow a record")
        try:
            await self._carry(answer, following)
            if following.done():
                following.result()
        finally:
            await end(following)

    async def _carry(self, answer: StreamAnswer, source: asyncio.Task[None]) -> None:
        """Sends what a source writes, to the end of both; then what is left is not sent any more: the caller left, or
        the process goes away.
        """
        sending = asyncio.create_task(answer.send(), name="send a stream")
        leaving = asyncio.create_task(self._executions.leaving.wait())
        try:
            await self._until_done(answer, source, sending)
            if source.done() and answer.begun:
                answer.close()
                await self._until_done(answer, sending, leaving)
        finally:
            await end(sending, leaving)

    async def _until_done(self, answer: StreamAnswer, *tasks: asyncio.Task[Any]) -> None:
        """Waits until one of the tasks is done, or the caller is not there any more."""
        while not await first_done(self._clock, LOOK_SECONDS, *tasks):
            if is_gone(answer.request):
                return

    async def _follow(self, answer: StreamAnswer, record: RunRecord) -> None:
        """Raises what is wrong before the stream has begun; after that nothing but a broken connection can tell it."""
        try:
            await self._write_pages(answer, record)
        except ReaderGone:
            pass
        except HoldfastError as error:
            if not answer.begun:
                raise
            log.warning("stream_broken", run_id=record.run_id, error=error.line())
        except Exception:
            if not answer.begun:
                raise
            log.exception("stream_broken", run_id=record.run_id)

    async def _write_pages(self, answer: StreamAnswer, record: RunRecord) -> None:
        async with aclosing(self._feed.follow(record.run_id, -1, self._seconds)) as pages:
            page = await anext(pages, None)
            if page is None:
                raise unavailable("draining", "this instance is going away; send the same request again")
            answer.begin(record)
            answer.write([_initiated(record)])
            written_at = self._clock.monotonic()
            while page is not None:
                messages = await self._messages(page)
                if not messages and self._clock.monotonic() - written_at >= KEEP_ALIVE_SECONDS:
                    messages = [_KEEP_ALIVE]
                if messages:
                    answer.write(messages)
                    await answer.taken()
                    written_at = self._clock.monotonic()
                page = await anext(pages, None)

    async def _messages(self, page: Page) -> list[Message]:
        messages = [
            as_message(str(event["id"]), str(event["event_type"]), encode(event["payload"]), event["timestamp"])
            for event in page.events
        ]
        if page.complete:
            record = page.record
            result = await self._payloads.result(record.run_id) if record.has_result else None
            messages.append(completed_message(record, result))
        return messages


def _initiated(record: RunRecord) -> Message:
    """The first event of every stream."""
    identity = f"begin-{record.job_id}"
    return as_message(identity, "run_initiated", encode({"run_id": record.run_id}), timestamp(record.created_at))


def _not_begun(record: RunRecord, error: ExecutorError) -> Problem:
    members = {"run_id": record.run_id}
    detail = f"{error}; run {record.run_id} has failed, send it again under another `run_id`"
    if isinstance(error, ExecutorUnavailable):
        return unavailable(error.code, detail, members)
    return Problem(HTTPStatus.BAD_GATEWAY, error.code, detail, members=members)
