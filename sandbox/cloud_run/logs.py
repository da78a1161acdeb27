"""What instances write: handed on line by line, and its end kept for the explanation of a failed start."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import structlog

log = structlog.get_logger()

LINE_BYTES: Final = 256 * 1024
"""Longer lines are handed on in pieces, as Cloud Logging does."""
_KEPT: Final = 20

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an instance, without its line end."""

    service: str
    instance: str
    stream: Stream
    text: str


LogSink = Callable[[LogLine], None]


def to_structlog(line: LogLine) -> None:
    """The sink of a sandbox that names none."""
    log.info("instance_output", service=line.service, instance=line.instance, stream=line.stream, line=line.text)


class Output:
    """Both streams of one instance.

    Args:
        service, instance: whose they are.
        sink: gets every line.
    """

    def __init__(self, service: str, instance: str, sink: LogSink) -> None:
        self._service = service
        self._instance = instance
        self._sink = sink
        self._tasks: list[asyncio.Task[None]] = []
        self.tail: deque[str] = deque(maxlen=_KEPT)

    def follow(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        """Begins to hand on a stream."""
        self._tasks.append(asyncio.create_task(self._pump(reader, stream), name=f"{stream} of {self._instance}"))

    async def ended(self) -> None:
        """Waits until both streams have ended; gives them up where it is cancelled."""
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _pump(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        while True:
            try:
                raw = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                raw = error.partial
                if not raw:
                    return
            except asyncio.LimitOverrunError as error:
                raw = await reader.readexactly(max(1, error.consumed))
            text = raw.rstrip(b"\r\n").decode(errors="replace")
            if stream == "stderr":
                self.tail.append(text)
            self._sink(LogLine(self._service, self._instance, stream, text))
