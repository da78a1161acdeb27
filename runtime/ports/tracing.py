"""Traces: which work belongs together, across processes; whether anything is recorded is the adapter's matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Final, Protocol

from runtime.contract.trace_context import TraceContext

_CURRENT: Final[ContextVar[TraceContext | None]] = ContextVar("trace", default=None)

Value = str | int | bool
Attributes = Mapping[str, Value]
"""Of a span; never a secret, a token or a user's data."""
NOTHING: Final[Attributes] = {}


class SpanKind(StrEnum):
    """What a span is to its parent."""

    SERVER = "server"
    CONSUMER = "consumer"
    INTERNAL = "internal"


class Span(Protocol):
    """A piece of work while it goes on."""

    def set(self, name: str, value: Value) -> None:
        """Adds an attribute."""
        ...

    def fail(self, error: str) -> None:
        """Marks the span as failed.

        Args:
            error: a stable word, not a message: a message may hold what no trace may.
        """
        ...


class Tracing(Protocol):
    """Makes spans."""

    def span(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: TraceContext | None = None,
        attributes: Attributes = NOTHING,
    ) -> AbstractContextManager[Span]:
        """A span around a block, which is the current one meanwhile; an exception that leaves the block fails it.

        Args:
            name: one of few, without ids.
            kind: see SpanKind.
            parent: None: the current span.
            attributes: see Attributes.
        """
        ...


def current() -> TraceContext | None:
    """The span that this task works for; None outside every trace. A new task begins with the one of its maker."""
    return _CURRENT.get()


def carried() -> dict[str, str]:
    """Headers that make a request part of the current trace; empty outside every trace."""
    context = _CURRENT.get()
    return {} if context is None else context.headers()


@contextmanager
def within(context: TraceContext | None) -> Iterator[None]:
    """Makes a context the current one for a block."""
    token = _CURRENT.set(context)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class _Unrecorded:
    """A span that nobody records."""

    def set(self, name: str, value: Value) -> None:
        """See Span."""

    def fail(self, error: str) -> None:
        """See Span."""


_UNRECORDED: Final = _Unrecorded()


class PassedOn:
    """Records nothing, and hands the caller's trace on, so that whoever is called can still be found by it."""

    def span(
        self,
        name: str,  # noqa: ARG002 - of the protocol
        kind: SpanKind = SpanKind.INTERNAL,  # noqa: ARG002
        *,
        parent: TraceContext | None = None,
        attributes: Attributes = NOTHING,  # noqa: ARG002
    ) -> AbstractContextManager[Span]:
        """See Tracing."""
        context = parent or current()
        return _OUTSIDE if context is None else _HandedOn(context)


class _HandedOn:
    """`within` as a class: every request passes it, and a generator would cost five times as much."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: TraceContext | None) -> None:
        self._context = context

    def __enter__(self) -> Span:
        self._token = _CURRENT.set(self._context)
        return _UNRECORDED

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


class _Outside:
    """A block outside every trace."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return _UNRECORDED

    def __exit__(self, *_: object) -> None:
        """See _HandedOn: there is nothing to take back."""


_OUTSIDE: Final = _Outside()
PASSED_ON: Final[Tracing] = PassedOn()
