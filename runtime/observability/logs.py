"""One JSON object a line, as Cloud Logging reads it: `severity`, `event`, ids; never a secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, TextIO

import msgspec
import structlog
import structlog.tracebacks
from structlog.typing import Processor

from runtime.observability.log_context import add_fields
from runtime.observability.redaction import filter_event
from runtime.observability.turn_writer import TurnWriter
from runtime.ports.tracing import current

LEVELS: Final = {"debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40}
"""Accepted values of LOG_LEVEL."""

_SEVERITY: Final = {
    "debug": "DEBUG", "info": "INFO", "warning": "WARNING", "warn": "WARNING", "error": "ERROR",
    "exception": "ERROR", "critical": "CRITICAL",
}  # fmt: skip


class Lines(structlog.BoundLoggerBase):
    """What a module's `log` is: the levels that are used here, and no more of a call's time than it takes."""

    def debug(self, event: object, **fields: object) -> None:
        """The process may say more of itself than anybody asks for."""
        self._say("debug", event, fields)

    def info(self, event: object, **fields: object) -> None:
        """All is well."""
        self._say("info", event, fields)

    def warning(self, event: object, **fields: object) -> None:
        """Something failed, and is made good."""
        self._say("warning", event, fields)

    def error(self, event: object, **fields: object) -> None:
        """Somebody has to look."""
        self._say("error", event, fields)

    def exception(self, event: object, **fields: object) -> None:
        """An error, with the exception that is being handled."""
        fields.setdefault("exc_info", True)
        self._say("error", event, fields)

    def _say(self, method: str, event: object, fields: dict[str, Any]) -> None:
        line: Any = {**self._context, **fields} if self._context else fields
        line["event"] = event
        try:
            for processor in self._processors:
                line = processor(self._logger, method, line)
        except structlog.DropEvent:
            return
        self._logger.msg(line)


def _nothing(_lines: Lines, _event: object, **_fields: object) -> None:
    """Below the level that is written."""


def _lines_from(threshold: int) -> type[Lines]:
    """Lines of a level and of all above it."""
    quiet = [name for name in ("debug", "info", "warning", "error") if LEVELS[name] < threshold]
    return type("Lines", (Lines,), dict.fromkeys(quiet, _nothing))


Tap = Callable[[MutableMapping[str, Any]], None]
"""Sees every line before it is written, already filtered."""


def configure(
    role: str,
    level: str = "info",
    stream: TextIO | None = None,
    tap: Tap | None = None,
    *,
    project_id: str | None = None,
    for_good: bool = False,
) -> None:
    """Sends every log line of the process, libraries included, through one chain.

    Args:
        role: stands in every line as `role`.
        level: one of LEVELS; an unknown one means info.
        stream: None means standard output.
        tap: also gets every event; None: nobody.
        project_id: for the links to traces; None leaves them out.
        for_good: nothing configures the process's logs again; its loggers are then made once, not for every line.
    """
    out = stream or (TurnWriter(sys.stdout) if for_good else sys.stdout)
    threshold = LEVELS.get(level.lower(), logging.INFO)
    chain: list[Processor] = [_complete(role, project_id), *([_tapped(tap)] if tap is not None else []), _line]
    structlog.configure(
        processors=chain,
        wrapper_class=_lines_from(threshold),
        logger_factory=(lambda *_: out) if isinstance(out, TurnWriter) else structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=for_good,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(_libraries(chain))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(threshold, logging.INFO))
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _libraries(chain: list[Processor]) -> logging.Formatter:
    """Takes the lines of libraries through the same chain."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *chain],
    )


def _complete(role: str, project_id: str | None) -> Processor:
    """What a line has beside what was said: whose it is, when, how bad; and nothing that it must not have. In one
    function, because a busy service writes a line for every request.
    """

    def complete(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        add_fields(_logger, method, event)
        if "exc_info" in event:
            event = _tracebacks(_logger, method, event)
        filter_event(_logger, method, event)
        # Ours, so that none of it has to pass the filter.
        event.setdefault("role", role)
        event["time"] = _now()
        event["severity"] = _SEVERITY.get(method, "DEFAULT")
        context = current() if project_id is not None else None
        if context is not None:
            event["logging.googleapis.com/trace"] = f"projects/{project_id}/traces/{context.trace_id}"
            event["logging.googleapis.com/spanId"] = context.span_id
            event["logging.googleapis.com/trace_sampled"] = context.sampled
        return event

    return complete


class _Second:
    """The second that the last line was written in, as text: most lines share one with the line before."""

    number = -1
    text = ""


def _now() -> str:
    """The time, UTC, in microseconds and ISO 8601."""
    second, micros = divmod(time.time_ns() // 1000, 1_000_000)
    if second != _Second.number:
        _Second.text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _Second.number = second
    return f"{_Second.text}.{micros:06}Z"


# Without the variables of each frame: bodies, headers and keys are among them, under any name.
_tracebacks: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def _line(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """The event as one line of JSON in ASCII: what reads the stream may expect any encoding of it."""
    try:
        line = _encode(event).decode()
    except (TypeError, ValueError, OverflowError):
        line = ""
    return line if line and line.isascii() else json.dumps(event, default=str)


_encode: Final = msgspec.json.Encoder().encode


def _tapped(tap: Tap) -> Processor:
    def show(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        tap(event)
        return event

    return show


def _logger_name(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["logger"] = record.name
    return event
