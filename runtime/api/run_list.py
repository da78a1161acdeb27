"""Runs, newest first, a page at a time."""

from __future__ import annotations

from runtime.api.page_cursor import TIES, Cursor, page_of
from runtime.api.run_record import RunRecord, read_record
from runtime.api.run_store import CALL_SECONDS
from runtime.contract import names
from runtime.contract.states import RunState
from runtime.ports.documents import Documents, Filter, Operator, Query


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
            where.append(Filter("created_at", Operator.LESS_OR_EQUAL, before.at))
        query = Query(names.RUNS, where, order_by="created_at", descending=True, limit=limit + TIES)
        found = [read_record(document.data) for document in await self._documents.query(query, timeout=CALL_SECONDS)]
        return page_of(found, lambda run: Cursor(run.created_at, run.run_id), before, limit)
