"""Lists of runs: newest first, every run once over all pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runtime.api.page_cursor import Cursor, read_cursor
from runtime.api.run_list import RunList
from runtime.contract.states import RunState
from tests.support.api_bench import ApiBench


async def pages(bench: ApiBench, limit: int, state: RunState | None = None) -> list[list[str]]:
    found: list[list[str]] = []
    cursor: Cursor | None = None
    while True:
        runs, more = await RunList(bench.store).page(state, cursor, limit)
        found.append([run.run_id for run in runs])
        if more is None:
            return found
        cursor = read_cursor(more)


async def test_pages_go_from_the_newest_to_the_oldest_and_name_no_run_twice() -> None:
    bench = ApiBench()
    for number in range(5):
        await bench.accept(run_id=f"r{number}")
        await bench.clock.advance(1)
    assert await pages(bench, 2) == [["r4", "r3"], ["r2", "r1"], ["r0"]]
    assert await pages(bench, 5) == [["r4", "r3", "r2", "r1", "r0"]]


async def test_runs_of_the_same_microsecond_are_neither_lost_nor_shown_twice() -> None:
    bench = ApiBench()
    for number in range(7):
        await bench.accept(run_id=f"r{number}")
    assert [run for page in await pages(bench, 3) for run in page] == [f"r{number}" for number in range(6, -1, -1)]


async def test_a_state_narrows_the_list() -> None:
    bench = ApiBench()
    for number in range(4):
        await bench.accept(run_id=f"r{number}")
        await bench.clock.advance(1)
    await bench.cancel("r1")
    assert await pages(bench, 10, RunState.CANCELLED) == [["r1"]]
    assert await pages(bench, 1, RunState.DISPATCHING) == [["r3"], ["r2"], ["r0"]]


async def test_a_plain_time_leaves_out_what_is_not_older() -> None:
    bench = ApiBench()
    await bench.accept(run_id="old")
    await bench.clock.advance(1)
    await bench.accept(run_id="new")
    runs, _ = await RunList(bench.store).page(None, read_cursor("2026-01-01T00:00:01Z"), 10)
    assert [run.run_id for run in runs] == ["old"]


def test_a_cursor_reads_back_equal() -> None:
    cursor = Cursor(datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), "run-1")
    assert read_cursor(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00Z,a/b"]
)
def test_other_texts_are_no_cursor(text: str) -> None:
    assert read_cursor(text) is None
