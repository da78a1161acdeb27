"""Fields that every line of a piece of work has, whoever writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

_FIELDS: Final[ContextVar[Mapping[str, object]]] = ContextVar("log_fields", default=MappingProxyType({}))


def bind_fields(**fields: object) -> None:
    """Adds fields to every further line of this task and of those that it begins."""
    _FIELDS.set({**_FIELDS.get(), **fields})


@contextmanager
def bound_fields(**fields: object) -> Iterator[None]:
    """`bind_fields` for a block."""
    token = _FIELDS.set({**_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def add_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The structlog processor: what a line says itself comes before what it is part of."""
    for name, value in _FIELDS.get().items():
        event.setdefault(name, value)
    return event
