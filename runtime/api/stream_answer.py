"""The answer that carries a run's events to its caller, as they come from the executor or from the record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import structlog
from aiohttp import hdrs, web

from runtime.api.event_stream import STALL_SECONDS
from runtime.api.execution import ReaderGone
from runtime.api.executor_messages import COMPLETED, Message
from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock

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

    Args:
        request: the caller's.
        form: how events are written.
        clock: for stalls.
        metrics: counts how streams end.

    Attributes:
        begun: whether the status is sent.
        gone: set once the caller takes nothing any more.
    """

    def __init__(self, request: web.Request, form: StreamForm, clock: Clock, metrics: Metrics) -> None:
        self._request = request
        self._form = form
        self._clock = clock
        self._metrics = metrics
        self._completed = False
        self.begun = False
        self.gone = asyncio.Event()
        self.response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: form.value, hdrs.CACHE_CONTROL: "no-cache", "X-Accel-Buffering": "no"}
        )

    async def begin(self, record: RunRecord) -> None:
        """Sends the status."""
        self.response.headers[hdrs.LOCATION] = f"/v1/runs/{record.run_id}"
        self.begun = True
        await self._sent(None)

    async def write(self, messages: Sequence[Message]) -> None:
        """Sends events in one write, `completed` as the last."""
        if self._form is StreamForm.SSE:
            data = b"".join(message.raw for message in messages)
        else:
            data = b"".join(message.data + b"\n" for message in messages if message.data)
        if data:
            await self._sent(data)
        self._completed = self._completed or messages[-1].event_type == COMPLETED

    async def ended(self) -> web.StreamResponse:
        """Ends the answer: cleanly behind `completed`, else by breaking the connection off, so that the caller can
        tell that this was not the end.
        """
        end = "client_closed" if self.gone.is_set() else "completed" if self._completed else "cut"
        if end == "completed":
            try:
                async with self._clock.timeout(STALL_SECONDS):
                    await self.response.write_eof()
            except (ConnectionError, TimeoutError):
                end = "client_closed"
        if end != "completed" and self._request.transport is not None:
            self._request.transport.abort()
        self._metrics.streams.labels(end).inc()
        return self.response

    async def _sent(self, data: bytes | None) -> None:
        try:
            async with self._clock.timeout(STALL_SECONDS):
                if data is None:
                    await self.response.prepare(self._request)
                else:
                    await self.response.write(data)
        except (ConnectionError, TimeoutError) as error:
            log.info("stream_left", stalled=isinstance(error, TimeoutError))
            self.gone.set()
            raise ReaderGone from None
