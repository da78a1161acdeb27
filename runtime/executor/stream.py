"""The answer that carries a run's events: few large writes under load, at once where there is only one event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

import structlog
from aiohttp import hdrs, web
from msgspec import Struct

from runtime.execution.event import Emitted, Stretches
from runtime.executor.channel import Channel, Direct
from runtime.executor.stream_event import OVERHEAD, SSE_OVERHEAD, ndjson, sse
from runtime.http.presence import LOOK_SECONDS, is_gone, keep_unsent
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock, Timer

if TYPE_CHECKING:
    from aiohttp import http

WRITE_BYTES: Final = 16 * 1024
"""Largest single write; one write for each event would cost seven times as much."""
KEEP_ALIVE_SECONDS: Final = 15
"""Silence after which a comment is sent: intermediaries cut idle streams, and a vanished reader is found by a write."""
LAST_SECONDS: Final = 10.0
"""Longest that a reader of a run that has ended may take nothing; then the connection is cut."""
REQUEST_SECONDS: Final = 28.0
"""From the latest end of an engine to the end of its request, which the platform cuts 30 s after it."""
UNSENT_BYTES: Final = 64 * 1024
"""Most bytes that the system takes before they can leave."""

_KEEP_ALIVE: Final = b": keep-alive\n\n"

log = structlog.get_logger()


class StreamForm(StrEnum):
    """How events are written."""

    NDJSON = "application/x-ndjson"
    """A JSON object a line. Nothing is sent in silence: the form has no comments."""
    SSE = "text/event-stream"
    """Server-sent events with ids, and comments in silence."""


class StreamEnd(StrEnum):
    """How a stream ended."""

    COMPLETED = "completed"
    """The reader was sent everything."""
    CLIENT_CLOSED = "client_closed"
    """The reader went away; the run goes on."""
    REPLACED = "replaced"
    """Another reader took its place."""
    STALLED = "stalled"
    """The reader did not take the end."""
    BROKEN = "broken"
    """A fault of ours; the connection is cut, so that the reader can tell."""


class Reading(Struct, frozen=True, kw_only=True):
    """A reader and what it reads.

    Attributes:
        channel: the run's.
        reader: its number there.
        over: done once the run has ended.
        latest: monotonic time after which the run's engine may not work; the request ends soon after.
        form: how events are written.
    """

    channel: Channel
    reader: int
    over: asyncio.Future[None]
    latest: float
    form: StreamForm


class StreamWriter:
    """Writes streams.

    Args:
        clock: for silence and stalls.
        metrics: counts how streams end.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics

    async def answer(self, request: web.Request, reading: Reading) -> web.StreamResponse:
        """Streams a run to the end. Without a reader the run goes on.

        A stream that does not end with `completed` has no clean end either: its connection is cut.
        """
        response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: reading.form.value, hdrs.CACHE_CONTROL: "no-cache", "X-Accel-Buffering": "no"}
        )
        ended = StreamEnd.BROKEN
        try:
            async with self._limited(reading):
                ended = await self._write(request, response, reading)
        except TimeoutError:
            ended = StreamEnd.STALLED
        except ConnectionError:
            ended = StreamEnd.CLIENT_CLOSED
        except Exception:
            log.exception("stream_broken")
        finally:
            reading.channel.detach(reading.reader)
            self._metrics.streams.labels(ended.value).inc()
            log.info("stream_ended", end=ended.value)
            if ended is not StreamEnd.COMPLETED and request.transport is not None:
                request.transport.abort()
        return response

    @contextlib.asynccontextmanager
    async def _limited(self, reading: Reading) -> AsyncIterator[None]:
        """Cuts the block off once the run has ended, where its reader takes nothing or the request is over:
        TimeoutError.
        """
        scope, timers, over = self._clock.timeout(None), list[Timer](), asyncio.Event()
        ended_at = 0.0

        def begin(_over: object) -> None:
            nonlocal ended_at
            ended_at = self._clock.monotonic()
            look()

        def look() -> None:
            now = self._clock.monotonic()
            latest = max(ended_at, reading.channel.moved_at) + LAST_SECONDS
            left = min(latest, reading.latest + REQUEST_SECONDS) - now
            if over.is_set():  # the end of the run may have been on its way here
                return
            if left <= 0:
                scope.reschedule(asyncio.get_running_loop().time())
            else:
                timers[:] = [self._clock.call_later(left, look)]

        reading.over.add_done_callback(begin)
        try:
            async with scope:
                yield
        finally:
            over.set()
            reading.over.remove_done_callback(begin)
            for timer in timers:
                timer.cancel()

    async def _write(self, request: web.Request, response: web.StreamResponse, reading: Reading) -> StreamEnd:
        await response.prepare(request)
        keep_unsent(request, UNSENT_BYTES)
        channel, is_sse = reading.channel, reading.form is StreamForm.SSE
        framed = _Framed(request, channel.name, sse if is_sse else ndjson)
        direct = Direct(framed.write, SSE_OVERHEAD if is_sse else OVERHEAD)
        while channel.is_reader(reading.reader):
            batch = channel.take(WRITE_BYTES, direct.overhead)
            if batch:
                *first, last = parts(framed.framed(batch))
                for part in first:
                    await response.write(part)
                # Another may have taken its place, and the end, while this one took the first parts.
                if channel.is_reader(reading.reader) and channel.ended and not channel.waits:
                    await response.write_eof(last)
                    return StreamEnd.COMPLETED
                await response.write(last)
            elif channel.ended:
                await response.write_eof()
                return StreamEnd.COMPLETED
            elif not await self._some(channel, direct, is_sse=is_sse):
                if is_gone(request):
                    return StreamEnd.CLIENT_CLOSED
                if is_sse and self._silence(channel) >= KEEP_ALIVE_SECONDS:
                    await response.write(_KEEP_ALIVE)
                    channel.moved_at = self._clock.monotonic()
        return StreamEnd.REPLACED

    async def _some(self, channel: Channel, direct: Direct, *, is_sse: bool) -> bool:
        """Waits for an event; False where it is time to look for the reader, or to send a sign of life."""
        seconds = min(LOOK_SECONDS, KEEP_ALIVE_SECONDS - self._silence(channel)) if is_sse else LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(max(0.0, seconds)):
                await channel.some(direct)
            return True
        return False

    def _silence(self, channel: Channel) -> float:
        return self._clock.monotonic() - channel.moved_at


class _Framed:
    """Writes events of one stream.

    Args:
        request: its answer is written to.
        stream: name of the stream.
        frames: how they are written.
    """

    def __init__(self, request: web.Request, stream: str, frames: Callable[[str, Sequence[Emitted]], bytes]) -> None:
        self._writer = cast("http.StreamWriter", request.writer)  # what the framework's server gives every request
        self._protocol = request.protocol
        self._stream = stream
        self._frames = frames

    def framed(self, events: Sequence[Emitted]) -> bytes:
        """Events as they are written."""
        return self._frames(self._stream, events)

    def write(self, events: Stretches) -> bytes | None:
        """See Direct: gives events to the connection within this turn of the loop, where it has room for them."""
        if self._protocol.writing_paused:
            return None
        data = self.framed(events)
        try:
            for part in parts(data):
                _run_through(self._writer.write(part, drain=False))
        except ConnectionError:
            return None
        return data


def parts(data: bytes) -> list[bytes]:
    """What is written, in parts of at most WRITE_BYTES."""
    if len(data) <= WRITE_BYTES:
        return [data]
    return [data[start : start + WRITE_BYTES] for start in range(0, len(data), WRITE_BYTES)]


def _run_through(work: Coroutine[None, None, None]) -> None:
    """Runs what has nothing to wait for: a write that is not drained."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError("a write that is not drained waits")
