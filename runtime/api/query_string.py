"""Members of a query string: each once, in its range, or refused."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Final, TypeVar

from aiohttp import web

from runtime.api.page_cursor import Cursor, read_cursor
from runtime.api.problem import Problem

Word = TypeVar("Word", bound=StrEnum)

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})", re.ASCII)


def only(request: web.Request, names: Collection[str]) -> None:
    """Refuses members that the route does not know, and members given twice.

    Raises:
        Problem: 400 `invalid_query`.
    """
    for name in request.query:
        if name not in names:
            raise invalid(name, f"is not known here; known are {', '.join(names)}")
        if len(request.query.getall(name)) > 1:
            raise invalid(name, "must be given once")


def integer(request: web.Request, name: str, low: int, high: int, default: int) -> int:
    """An integer in `low`..`high`; `default` where it is not given.

    Raises:
        Problem: 400 `invalid_query`.
    """
    value = request.query.get(name)
    if value is None:
        return default
    if _INTEGER.fullmatch(value) is None or not low <= int(value) <= high:
        raise invalid(name, f"must be an integer from {low} to {high}")
    return int(value)


def word(request: web.Request, name: str, kind: type[Word]) -> Word | None:
    """A closed word; None where it is not given.

    Raises:
        Problem: 400 `invalid_query`.
    """
    value = request.query.get(name)
    if value is None:
        return None
    if value not in [member.value for member in kind]:
        raise invalid(name, f"must be one of {', '.join(kind)}")
    return kind(value)


def flag(request: web.Request, name: str) -> bool:
    """True where it is given as `true`; False where it is not given.

    Raises:
        Problem: 400 `invalid_query`.
    """
    value = request.query.get(name, "false")
    if value not in {"true", "false"}:
        raise invalid(name, "must be true or false")
    return value == "true"


def cursor(request: web.Request, name: str) -> Cursor | None:
    """Where a page begins; None where it is not given.

    Raises:
        Problem: 400 `invalid_query`.
    """
    text = request.query.get(name)
    if text is None:
        return None
    found = read_cursor(text)
    if found is None:
        raise invalid(name, "must be the `next_before` of an answer, or a time such as 2026-01-31T00:00:00Z")
    return found


def invalid(name: str, rule: str) -> Problem:
    """The refusal of one member."""
    return Problem(400, "invalid_query", f"the query's {name[:64]!a} {rule}")
