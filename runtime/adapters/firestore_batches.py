"""Commits of one write that share a request while others are under way: most of what a commit costs is the request."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import structlog
from grpc import StatusCode

from runtime.adapters.firestore_calls import FirestoreCalls, Left
from runtime.adapters.firestore_errors import MISCONFIGURED, REFUSED
from runtime.adapters.google_messages import Message, message_class
from runtime.adapters.grpc_calls import CallFailed, ChannelClosed, retry_hint
from runtime.ports.clock import Clock, Timer
from runtime.ports.tokens import TokenUnavailable

LANES: Final = 4
"""Requests under way that a further write does not join: fewer than these, and it goes by itself at once."""
WAIT_SECONDS: Final = 1.0
"""After these what waits goes, whatever is under way. Most requests take a hundredth."""
BATCH_WRITES: Final = 100
"""Most writes in one request. Firestore takes 500; smaller ones keep no write waiting for long."""
BATCH_BYTES: Final = 1024 * 1024
"""Bytes of writes after which a request takes no further one. Firestore takes 10 MiB."""

_BatchWriteRequest: Final = message_class("google.firestore.v1.BatchWriteRequest")
_STATUS: Final = {status.value[0]: status for status in StatusCode}
_NOT_HERE: Final = frozenset({StatusCode.UNIMPLEMENTED, StatusCode.PERMISSION_DENIED})
"""Of a whole request: perhaps this database, or what we may do in it, knows commits only."""
_NOT_BEGUN: Final = MISCONFIGURED | REFUSED | {StatusCode.ALREADY_EXISTS}
"""Of a whole request: it was not begun with. One write may be the reason, so each is tried by itself."""

log = structlog.get_logger()


class Written(NamedTuple):
    """A commit's answer, as far as it is read."""

    write_results: list[Message]


class _Waiting(NamedTuple):
    """A write until its answer is there."""

    commit: Message
    """The request that it came in."""
    document: str
    left: Left
    answer: asyncio.Future[Any]


class BatchedCommits:
    """Firestore's calls, as they are but for commits of one write, which may travel together by `BatchWrite`.

    A write goes by itself as long as few are under way. Then those that come meanwhile gather, and go in one request as
    soon as one of the others is answered, or a second has passed. Each has its own condition and its own answer, as if
    it were alone; two of one document never share a request, which Firestore refuses.

    Args:
        calls: what sends; taken over, and close() closes it.
        clock: bounds how long a write waits for its turn.
    """

    def __init__(self, calls: FirestoreCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._under_way = 0
        self._waiting: dict[int, _Waiting] = {}
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm: Timer | None = None
        self._apart = False

    @property
    def database(self) -> str:
        """See FirestoreCalls."""
        return self._calls.database

    async def commit(self, request: Message, left: Left) -> Message:
        """See FirestoreCalls; `left` is asked right before the write is sent."""
        if len(request.writes) != 1 or self._apart:
            return await self._calls.commit(request, left)
        if self._under_way < LANES:
            self._under_way += 1
            try:
                return await self._calls.commit(request, left)
            finally:
                self._leave()
        number = self._number = self._number + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        write = request.writes[0]
        self._waiting[number] = _Waiting(request, write.delete or write.update.name, left, answer)
        self._watch()
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)  # who gives up before its turn has sent nothing

    async def batch_write(self, request: Message, left: Left) -> Message:
        """See FirestoreCalls."""
        return await self._calls.batch_write(request, left)

    async def batch_get(self, request: Message, left: Left) -> list[Message]:
        """See FirestoreCalls."""
        return await self._calls.batch_get(request, left)

    async def run_query(self, request: Message, left: Left) -> list[Message]:
        """See FirestoreCalls."""
        return await self._calls.run_query(request, left)

    async def close(self) -> None:
        """See FirestoreCalls."""
        self._apart = True
        for waiting in list(self._waiting.values()):
            _fail(waiting, ChannelClosed())
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        await self._calls.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _watch(self) -> None:
        if self._alarm is None:
            self._alarm = self._clock.call_later(WAIT_SECONDS, self._hurry)

    def _hurry(self) -> None:
        """Requests that hang keep nobody for long."""
        self._alarm = None
        if batch := self._next():
            self._go(batch)
        if self._waiting:
            self._watch()

    def _leave(self) -> None:
        """A request is answered: what has gathered may go."""
        self._under_way -= 1
        while self._under_way < LANES and (batch := self._next()):
            self._go(batch)

    def _go(self, batch: list[_Waiting]) -> None:
        self._under_way += 1
        self._begin(self._send(batch) if len(batch) > 1 else self._send_alone(batch[0]), batch)

    def _next(self) -> list[_Waiting]:
        batch: dict[str, _Waiting] = {}
        size = 0
        for number, waiting in list(self._waiting.items()):
            if waiting.answer.done():  # its caller has gone
                del self._waiting[number]
            elif waiting.document not in batch:
                batch[waiting.document] = waiting
                del self._waiting[number]
                size += waiting.commit.ByteSize()
                if len(batch) == BATCH_WRITES or size >= BATCH_BYTES:
                    break
        return list(batch.values())

    def _begin(self, sending: Coroutine[Any, Any, None], batch: list[_Waiting]) -> None:
        # In a context of its own: it is the work of nobody's delivery.
        task = asyncio.get_running_loop().create_task(sending, name="batch of writes", context=contextvars.Context())
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("batch_write_broken", exc_info=error)
            for waiting in batch:  # whatever happened, also where the task was ended before it began
                _fail(waiting, ChannelClosed())
            self._leave()

        task.add_done_callback(ended)

    async def _send(self, batch: list[_Waiting]) -> None:
        batch = [waiting for waiting in batch if not waiting.answer.done()]  # the others have gone
        if not batch:
            return
        request = _BatchWriteRequest(database=self._calls.database)
        for waiting in batch:
            request.writes.append(waiting.commit.writes[0])
        try:
            answer = await self._calls.batch_write(request, lambda: max([waiting.left() for waiting in batch]))
        except CallFailed as error:
            if error.status in _NOT_BEGUN:
                await self._send_apart(error, batch)
            else:
                for waiting in batch:
                    # The writes are not one: some may have been made, whatever the answer for all of them says.
                    _fail(waiting, CallFailed(StatusCode.UNAVAILABLE, error.text, error.retry_after))
        except TokenUnavailable as error:
            for waiting in batch:
                _fail(waiting, TokenUnavailable(str(error)))
        except ChannelClosed:
            return
        else:
            for waiting, result, status in zip(batch, answer.write_results, answer.status, strict=True):
                if status.code == 0:
                    _succeed(waiting, Written([result]))
                else:
                    known = _STATUS.get(status.code, StatusCode.UNKNOWN)
                    _fail(waiting, CallFailed(known, status.message, retry_hint(status.SerializeToString())))

    async def _send_apart(self, error: CallFailed, batch: list[_Waiting]) -> None:
        """Sends each write by itself. It stays so where that works and the right to send them together is denied."""
        async with asyncio.TaskGroup() as group:
            for waiting in batch:
                group.create_task(self._send_alone(waiting))
        denied = error.status in _NOT_HERE and any(
            waiting.answer.done() and not waiting.answer.cancelled() and waiting.answer.exception() is None
            for waiting in batch
        )
        if denied and not self._apart:
            self._apart = True
            log.warning("batch_write_refused", error=error.text, writes="go one by one from now on")
            while left := self._next():
                for waiting in left:
                    self._go([waiting])

    async def _send_alone(self, waiting: _Waiting) -> None:
        if waiting.answer.done():
            return
        try:
            _succeed(waiting, await self._calls.commit(waiting.commit, waiting.left))
        except (CallFailed, ChannelClosed, TokenUnavailable) as error:
            _fail(waiting, error)


def _succeed(waiting: _Waiting, answer: object) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
        waiting.answer.exception()  # nobody may be left to hear it
