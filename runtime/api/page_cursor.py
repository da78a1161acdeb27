"""Pages of a list, newest first: where one begins, and where the next one does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from runtime.api.run_view import timestamp

TIES: Final = 20
"""Items of one microsecond that a page still puts in order."""

_CURSOR: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)Z(?:,([A-Za-z0-9_-]{1,64}))?", re.ASCII
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Where a page begins: after this item.

    Attributes:
        at: time of the item.
        id: of the item; "" where only a time was given: every item of that very time is left out.
    """

    at: datetime
    id: str

    def __str__(self) -> str:
        """As a caller sends it back."""
        return f"{timestamp(self.at)},{self.id}"


def read_cursor(text: str) -> Cursor | None:
    """The cursor of a text, `TIME` or `TIME,ID` with TIME in RFC 3339 and UTC; None where it is not one."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        return None
    try:
        return Cursor(datetime.fromisoformat(match[1]).replace(tzinfo=UTC), match[2] or "")
    except ValueError:
        return None


def page_of(
    found: Iterable[T], position: Callable[[T], Cursor], before: Cursor | None, limit: int
) -> tuple[list[T], str | None]:
    """The items after a cursor, newest first.

    Args:
        found: up to `limit` + TIES items from the cursor's time on.
        position: of an item.
        before: None begins with the newest.
        limit: most items.

    Returns:
        The items, and the cursor of the next page; None where this one is the last.
    """
    items = sorted(found, key=position, reverse=True)
    left = [item for item in items if before is None or position(item) < before]
    page = left[:limit]
    return page, str(position(page[-1])) if len(left) > limit else None
