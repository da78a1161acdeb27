"""Where the local stack's logs go: a file per service, and what a person must see to the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

import structlog
from rich.console import Console

from runtime.observability import logs
from sandbox.cloud_run.logs import LogLine

SANDBOX: Final = "sandbox"
_SHOWN: Final = frozenset({"WARNING", "ERROR", "CRITICAL"})


class ServiceLogs:
    """Open while the stack runs.

    Args:
        folder: one file per service, and `sandbox.log`; begun anew.
        out: gets warnings and errors, a line each.
    """

    def __init__(self, folder: Path, out: Console) -> None:
        self._folder = folder
        self._out = out
        self._files: dict[str, TextIO] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in self._folder.glob("*.log"):
            old.unlink()
        logs.configure(SANDBOX, "info", self._file(SANDBOX), tap=self._show_sandbox)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        structlog.reset_defaults()
        for file in self._files.values():
            file.close()

    def line(self, line: LogLine) -> None:
        """Takes one line that a service wrote."""
        self._file(line.service).write(f"{line.text}\n")
        if line.stream == "stderr":
            self._show(line.service, line.text)
            return
        try:
            event = json.loads(line.text)
        except ValueError:
            return
        if isinstance(event, Mapping) and event.get("severity") in _SHOWN:
            self._show(line.service, _summary(event))

    def _show_sandbox(self, event: MutableMapping[str, Any]) -> None:
        if event.get("severity") in _SHOWN:
            self._show(SANDBOX, _summary(event))

    def _show(self, service: str, text: str) -> None:
        self._out.print(f"{service}: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)

    def _file(self, service: str) -> TextIO:
        if service not in self._files:
            self._files[service] = (self._folder / f"{service}.log").open("w", buffering=1)
        return self._files[service]


def _summary(event: Mapping[str, Any]) -> str:
    details = {
        name: value for name, value in event.items() if name not in {"event", "severity", "time", "role", "exception"}
    }
    said = " ".join(f"{name}={value}" for name, value in details.items())
    return f"{event.get('event')} {said}".strip()
