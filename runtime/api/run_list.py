"""Runs, newest first, a page at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from runtime.api.run_record import RunRecord, read_record
from runtime.api.run_store import CALL_SECONDS
from runtime.api.run_view import timestamp
from runtime.contract import names
from runtime.contract.states import RunState
from runtime.ports.documents import Documents, Filter, Operator, Query

TIES: Final = 20
"""Runs of one microsecond that a page still puts in order."""

_CURSOR: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)Z(?:,([A-Za-z0-9_-]{1,64}))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: after this run.

    Attributes:
        created_at: of the run.
        run_id: "" where only a time was given: every run of that very time is left out.
    """

    created_at: datetime
    run_id: str

    def __str__(self) -> str:
        """As a caller sends it back."""
        return f"{timestamp(self.created_at)},{self.run_id}"


def read_cursor(text: str) -> Cursor | None:
    """The cursor of a text, `TIME` or `TIME,RUN_ID` with TIME in RFC 3339 and UTC; None where it is not one."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        return None
    try:
        return Cursor(datetime.fromisoformat(match[1]).replace(tzinfo=UTC), match[2] or "")
    except ValueError:
        return None


class RunList:
    """Lists runs."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def page(
        self, state: RunState | None, before: Cursor | None, limit: int
    ) -> tuple[list[RunRecord], str | None]:
        """Runs after a cursor, newest first.

        Args:
            state: only runs in it; None means all.
            before: None begins with the newest.
            limit: most runs.

        Returns:
            The runs, and the cursor of the next page; None where this one is the last.
        """
        where = [] if state is None else [Filter("state", Operator.EQUAL, state.value)]
        if before is not None:
            where.append(Filter("created_at", Operator.LESS_OR_EQUAL, before.created_at))
        query = Query(names.RUNS, where, order_by="created_at", descending=True, limit=limit + TIES)
        found = [read_record(document.data) for document in await self._documents.query(query, timeout=CALL_SECONDS)]
        found.sort(key=_position, reverse=True)
        left = [run for run in found if before is None or _position(run) < (before.created_at, before.run_id)]
        page = left[:limit]
        more = len(left) > limit
        return page, str(Cursor(page[-1].created_at, page[-1].run_id)) if more else None


def _position(run: RunRecord) -> tuple[datetime, str]:
    return run.created_at, run.run_id
