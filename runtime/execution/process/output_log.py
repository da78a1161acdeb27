"""What a job prints, as `log` events: by line, bounded, drops counted, secrets masked."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from runtime.observability.redaction import MASK, redact_text
from runtime.ports.engine import Emit

LINE_BYTES: Final = 8 * 1024
"""Longest line; a longer one is cut into several."""
OUTPUT_LINES: Final = 2000
"""Lines that one run may print, both streams together."""
OUTPUT_BYTES: Final = 1024 * 1024
"""Bytes that one run may print, both streams together."""
KEY_LINES: Final = 256
"""Longest private key that is masked where it is printed over several lines; RSA with 16384 bits takes 200."""

_KEY_BEGINS: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?!.*-----END )")


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
        rest, key_lines = b"", 0
        while chunk := await stream.read(LINE_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) >= LINE_BYTES:
                # Between two words where it can be: the halves of a secret are not recognised.
                cut = rest.rfind(b" ", LINE_BYTES // 2) + 1 or len(rest)
                lines.append(rest[:cut])
                rest = rest[cut:]
            for line in lines:
                key_lines = await self._line(line, name, key_lines)
        if rest:
            await self._line(rest, name, key_lines)

    async def close(self) -> None:
        """Says what was dropped."""
        if self.dropped_bytes:
            message = f"{self.dropped_bytes} bytes of further output were dropped"
            await self._emit("log", {"level": "warning", "message": message})

    async def _line(self, line: bytes, name: str, key_lines: int) -> int:
        """Passes a line on, and gives how many of the next ones may belong to a private key that it is part of."""
        of_a_key = key_lines > 0
        key_lines = KEY_LINES if _KEY_BEGINS.search(line) else 0 if b"-----END " in line else max(0, key_lines - 1)
        if self._lines >= OUTPUT_LINES or self._bytes >= OUTPUT_BYTES:
            self.dropped_bytes += len(line) + 1
            return key_lines
        self._lines += 1
        self._bytes += len(line) + 1
        text = line.removesuffix(b"\r").decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        text = MASK if of_a_key else redact_text(text)
        await self._emit("log", {"level": "info", "stream": name, "message": text})
        return key_lines
