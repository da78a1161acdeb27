"""Server-sent events of a run: bounded towards a slow reader, ended by the run's end, resumable by sequence."""

from __future__ import annotations

import contextlib
import json
from typing import Final

import structlog
from aiohttp import hdrs, web

from runtime.api.event_feed import EventFeed
from runtime.api.problem import unavailable
from runtime.api.run_record import RunRecord
from runtime.contract.errors import HoldfastError
from runtime.http.presence import is_gone
from runtime.ports.clock import Clock

KEEP_ALIVE_SECONDS: Final = 15
"""Silence after which a comment is sent: intermediaries cut idle streams, and a vanished reader is found by a write."""
STALL_SECONDS: Final = 30
"""Longest wait for a reader that takes nothing; then the connection is cut."""
END_EVENT: Final = "run-ended"
"""Name of the last message. No event of a run can have it: theirs hold no hyphen."""

_RETRY = b"retry: 2000\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"

log = structlog.get_logger()


class EventStream:
    """Streams runs.

    Args:
        feed: where the events come from.
        clock: for keep-alives and stalls.
        seconds: longest stream; a reader that wants more resumes.
    """

    def __init__(self, feed: EventFeed, clock: Clock, seconds: float) -> None:
        self._feed = feed
        self._clock = clock
        self._seconds = seconds

    async def answer(self, request: web.Request, run_id: str, after: int) -> web.StreamResponse:
        """Streams events after a sequence. What is wrong before the first byte keeps its status.

        A stream that ends without END_EVENT was cut short: by its time limit, a drain or a fault; the reader resumes.

        Raises:
            Problem: 404 `run_not_found`, 503 `too_many_waits`.
        """
        async with contextlib.aclosing(self._feed.follow(run_id, after, self._seconds)) as pages:
            page = await anext(pages, None)
            if page is None:
                raise unavailable("draining", "this instance is going away; connect again")
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
            try:
                await response.prepare(request)
                await self._write(response, _RETRY)
                written_at = self._clock.monotonic()
                while page is not None and not is_gone(request):
                    data = b"".join(map(_message, page.events)) + (_end(page.record) if page.complete else b"")
                    if not data and self._clock.monotonic() - written_at >= KEEP_ALIVE_SECONDS:
                        data = _KEEP_ALIVE
                    if data:
                        await self._write(response, data)
                        written_at = self._clock.monotonic()
                    page = await anext(pages, None)
                await response.write_eof()
            except ConnectionError:
                log.info("stream_left", run_id=run_id)
            except TimeoutError:
                log.info("stream_stalled", run_id=run_id, seconds=STALL_SECONDS)
                _cut(request)
            except HoldfastError as error:
                log.warning("stream_broken", run_id=run_id, error=error.line())
                _cut(request)
            except Exception:
                # The status is sent: nothing but a broken connection can tell the reader.
                log.exception("stream_broken", run_id=run_id)
                _cut(request)
            return response

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with self._clock.timeout(STALL_SECONDS):
            await response.write(data)


def resumes_at_end(request: web.Request, record: RunRecord, after: int) -> bool:
    """Whether a reader comes back for what it has: 204 then tells it to stay away, which an empty stream would not."""
    return hdrs.LAST_EVENT_ID in request.headers and record.ended and after + 1 >= record.next_sequence


def _message(event: dict[str, object]) -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    # One line: JSON escapes CR and LF. Id and type are of fixed alphabets, checked when the event was accepted.
    return f"id: {event['sequence']}\nevent: {event['event_type']}\ndata: {data}\n\n".encode()


def _end(record: RunRecord) -> bytes:
    data = json.dumps({"run_id": record.run_id, "state": record.state.value, "status_code": record.status_code})
    return f"event: {END_EVENT}\ndata: {data}\n\n".encode()


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
