"""The answer that carries a run's events to its caller, as they come from the executor or from the record.

Whoever has the events puts them down and goes on; the caller's own request sends them. So no caller holds a run up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import structlog
from aiohttp import hdrs, web

from runtime.api.backlog import Backlog
from runtime.api.event_stream import STALL_SECONDS
from runtime.api.execution import ReaderGone
from runtime.api.executor_messages import COMPLETED, Message
from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.http.presence import is_gone, keep_unsent
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock

WRITE_BYTES: Final = 64 * 1024
"""Largest single write: as much as a connection holds before it makes its writer wait, so that a slow caller is seen
to take something with every one."""
UNSENT_BYTES: Final = 128 * 1024
"""Most that the system keeps unsent for a caller: one of 30 KB/s must not seem to take nothing for 30 s."""

_ANY: Final = frozenset({"*/*", "application/*"})

log = structlog.get_logger()


class StreamForm(StrEnum):
    """How events are written."""

    NDJSON = "application/x-ndjson"
    """A JSON object a line; in silence nothing is sent. What a caller gets that names no form."""
    SSE = "text/event-stream"
    """Server-sent events, with comments in silence."""


def stream_form(request: web.Request) -> StreamForm:
    """The first form that a caller accepts.

    Raises:
        Problem: 406 `not_acceptable`.
    """
    accepted = ",".join(request.headers.getall(hdrs.ACCEPT, [])).lower()
    kinds = [kind.partition(";")[0].strip() for kind in accepted.split(",")]
    for kind in kinds:
        if kind in {"", *_ANY}:
            return StreamForm.NDJSON
        if kind == "text/*":
            return StreamForm.SSE
        if kind in list(StreamForm):
            return StreamForm(kind)
    forms = ", ".join(StreamForm)
    raise Problem(406, "not_acceptable", f"a run of mode `stream` is answered as one of {forms}; name one in Accept")


class StreamAnswer:
    """One caller's stream; the Reader of a run.

    A caller that is further behind than its backlog allows, or takes nothing for STALL_SECONDS, is let go of.

    Args:
        request: the caller's.
        form: how events are written.
        backlog: holds what the caller has not taken yet.
        clock: for stalls.
        metrics: counts how streams end.

    Attributes:
        request: the caller's.
        begun: whether there is a stream: nothing else can be answered any more.
    """

    def __init__(
        self, request: web.Request, form: StreamForm, backlog: Backlog, clock: Clock, metrics: Metrics
    ) -> None:
        self.request = request
        self._form = form
        self._backlog = backlog
        self._clock = clock
        self._metrics = metrics
        self._is_whole = False
        self._let_go_as: str | None = None
        self._is_closed = False
        self._is_sent = False
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self.begun = False
        self.response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: form.value, hdrs.CACHE_CONTROL: "no-cache", "X-Accel-Buffering": "no"}
        )

    def begin(self, record: RunRecord) -> None:
        """There is a stream from now on."""
        self.response.headers[hdrs.LOCATION] = f"/v1/runs/{record.run_id}"
        self.begun = True
        self._changed.set()

    def write(self, messages: Sequence[Message]) -> None:
        """Puts events down for the caller, `completed` as the last."""
        if self._form is StreamForm.SSE:
            data = b"".join(message.raw for message in messages)
        else:
            data = b"".join(message.data + b"\n" for message in messages if message.data)
        if self._let_go_as is None and not self._backlog.put(data):
            log.info("stream_left", why="behind", waiting=len(self._backlog))
            self._let_go("client_closed")
        if self._let_go_as is not None:
            raise ReaderGone
        self._is_whole = messages[-1].event_type == COMPLETED
        self._changed.set()

    def close(self) -> None:
        """Nothing more will be written."""
        self._is_closed = True
        self._changed.set()

    async def taken(self) -> None:
        """Waits until the caller has been sent everything that was written.

        Raises:
            ReaderGone
        """
        while self._backlog and self._let_go_as is None:
            self._taken.clear()
            await self._taken.wait()
        if self._let_go_as is not None:
            raise ReaderGone

    async def send(self) -> None:
        """Sends what is written, up to the end of it; returns where the caller is let go of, too."""
        try:
            while self._let_go_as is None:
                if self.begun and not self.response.prepared:
                    await self._prepare()
                elif data := self._backlog.take(WRITE_BYTES):
                    async with self._clock.timeout(STALL_SECONDS):
                        await self.response.write(data)
                elif self._is_closed:
                    self._is_sent = True
                    return
                else:
                    self._taken.set()
                    self._changed.clear()
                    await self._changed.wait()
        except (ConnectionError, TimeoutError) as error:
            log.info("stream_left", why="stalled" if isinstance(error, TimeoutError) else "closed")
            self._let_go("client_closed")
        except Exception:
            # The status is sent: nothing but a broken connection can tell the caller.
            log.exception("stream_broken")
            self._let_go("cut")

    def leave(self) -> None:
        """Nothing more is sent, and nothing more taken."""
        self._let_go(self._let_go_as or "client_closed")

    async def ended(self) -> web.StreamResponse:
        """Ends the answer: cleanly where everything was sent and `completed` was the last of it, else by breaking the
        connection off, so that the caller can tell that this was not the end.
        """
        end = self._let_go_as or self._end()
        if end == "completed":
            try:
                async with self._clock.timeout(STALL_SECONDS):
                    await self.response.write_eof()
            except (ConnectionError, TimeoutError):
                end = "client_closed"
        self._let_go(end)
        self._metrics.streams.labels(end).inc()
        return self.response

    def _end(self) -> str:
        if is_gone(self.request):
            return "client_closed"
        return "completed" if self._is_whole and self._is_sent else "cut"

    async def _prepare(self) -> None:
        keep_unsent(self.request, UNSENT_BYTES)
        async with self._clock.timeout(STALL_SECONDS):
            await self.response.prepare(self.request)

    def _let_go(self, end: str) -> None:
        self._let_go_as = end
        self._backlog.clear()
        if end != "completed" and self.begun and self.request.transport is not None:
            self.request.transport.abort()
        self._changed.set()
        self._taken.set()
