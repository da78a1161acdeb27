"""Writes lines where a busy service can afford it: all those of one turn of its event loop at once."""

from __future__ import annotations

import asyncio
import atexit
import threading
from typing import TextIO


class TurnWriter:
    """Takes lines, and writes what it has when the loop's turn is over; where no loop runs, at once.

    A process that is killed loses the lines of the turn that it was killed in; one that ends loses none.

    Args:
        stream: flushed after every write.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._due: asyncio.AbstractEventLoop | None = None
        atexit.register(self.flush)

    def msg(self, line: str) -> None:
        """Takes a line, without its end."""
        self._lines.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if self._due is not loop:
            self._due = loop
            loop.call_soon(self.flush)

    def write(self, text: str) -> None:
        """Takes text that ends its own lines, as logging's handlers write it."""
        self.msg(text.removesuffix("\n"))

    def flush(self) -> None:
        """Writes what there is."""
        with self._lock:
            self._due = None
            lines, self._lines = self._lines, []
            if lines:
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()
