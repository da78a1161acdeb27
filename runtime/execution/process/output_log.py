"""What a job prints, as `log` events: by line, bounded, drops counted."""

from __future__ import annotations

import asyncio
from typing import Final

from runtime.ports.engine import Emit

LINE_BYTES: Final = 8 * 1024
"""Longest line; a longer one is cut into several."""
OUTPUT_LINES: Final = 2000
"""Lines that one run may print, both streams together."""
OUTPUT_BYTES: Final = 1024 * 1024
"""Bytes that one run may print, both streams together."""


class OutputLog:
    """Reads the streams of one run. What is over the bounds is read and dropped, so that printing never blocks a job
    for good; how much it was is said at the end.

    Args:
        emit: the run's.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._lines = 0
        self._bytes = 0
        self.dropped_bytes = 0

    async def follow(self, stream: asyncio.StreamReader, name: str) -> None:
        """Reads one stream to its end."""
        rest = b""
        while chunk := await stream.read(LINE_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                await self._line(line, name)
            if len(rest) >= LINE_BYTES:
                await self._line(rest, name)
                rest = b""
        if rest:
            await self._line(rest, name)

    async def close(self) -> None:
        """Says what was dropped."""
        if self.dropped_bytes:
            message = f"{self.dropped_bytes} bytes of further output were dropped"
            await self._emit("log", {"level": "warning", "message": message})

    async def _line(self, line: bytes, name: str) -> None:
        if self._lines >= OUTPUT_LINES or self._bytes >= OUTPUT_BYTES:
            self.dropped_bytes += len(line) + 1
            return
        self._lines += 1
        self._bytes += len(line) + 1
        text = line.removesuffix(b"\r").decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        await self._emit("log", {"level": "info", "stream": name, "message": text})
