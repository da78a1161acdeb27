"""Waiting for events: woken at once by this process, within a second by another, and never for ever."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from runtime.api import watch as watch_module
from runtime.api.event_feed import EventFeed, Page
from runtime.api.event_log import EventLog
from runtime.api.problem import Problem
from runtime.api.run_store import RunStore
from runtime.api.watch import RunWatch, waking_on_drain
from runtime.contract import names
from runtime.ports.documents import Delete, Key
from tests.support.api_bench import ApiBench


async def running() -> ApiBench:
    bench = ApiBench()
    await bench.accept()
    await bench.lease("a")
    return bench


def sequences(page: Page) -> list[object]:
    return [event["sequence"] for event in page.events]


async def test_a_poll_without_a_wait_answers_at_once() -> None:
    bench = await running()
    page = await bench.feed.poll("r1", -1, 0)
    assert (sequences(page), page.last, page.complete) == ([], -1, False)
    await bench.events("a", 0, 1)
    page = await bench.feed.poll("r1", 0, 0)
    assert (sequences(page), page.last) == ([1], 1)


async def test_a_poll_is_woken_by_a_write_of_this_process_without_any_time_passing() -> None:
    bench = await running()
    polling = asyncio.create_task(bench.feed.poll("r1", -1, 30))
    await bench.clock.advance(0.5)
    await bench.events("a", 0)
    page = await polling
    assert sequences(page) == [0]
    assert bench.clock.monotonic() == 0.5


async def test_a_poll_finds_the_write_of_another_process_within_a_second() -> None:
    bench = await running()
    elsewhere = EventFeed(
        RunStore(bench.documents, bench.clock, RunWatch(bench.clock), bench.metrics, bench.runs._retention),
        EventLog(bench.documents), RunWatch(bench.clock), bench.clock, asyncio.Event(),
    )  # fmt: skip
    polling = asyncio.create_task(elsewhere.poll("r1", -1, 30))
    await bench.clock.advance(0.2)
    await bench.events("a", 0)
    await bench.clock.advance(0.8)
    assert sequences(await polling) == [0]


async def test_a_quiet_poll_reads_the_store_once_a_second_and_ends_with_its_wait() -> None:
    bench = await running()
    bench.documents.calls.clear()
    polling = asyncio.create_task(bench.feed.poll("r1", -1, 10))
    await bench.clock.advance(9.9)
    assert not polling.done()
    await bench.clock.advance(0.1)
    assert sequences(await polling) == []
    assert len(bench.documents.calls) <= 13


async def test_the_end_of_the_run_ends_a_poll() -> None:
    bench = await running()
    polling = asyncio.create_task(bench.feed.poll("r1", -1, 30))
    await bench.clock.advance(3.3)
    await bench.progress("a", "completed")
    assert (await polling).complete


async def test_a_poll_of_an_unknown_run_is_a_404() -> None:
    with pytest.raises(Problem, match="no run 'nobody'"):
        await ApiBench().feed.poll("nobody", -1, 30)


async def test_events_that_were_deleted_already_are_not_waited_for() -> None:
    bench = await running()
    await bench.events("a", 0, 1)
    key = Key(names.RUN_EVENTS, "r1.000000000000")
    document = await bench.store.get(key)
    assert document is not None
    await bench.store.commit([Delete(key, document.version)])
    await bench.progress("a", "completed")
    page = await bench.feed.poll("r1", -1, 30)
    assert (sequences(page), page.last, page.complete) == ([], 1, True)


async def test_events_of_an_earlier_run_of_the_same_id_are_not_shown() -> None:
    bench = await running()
    await bench.events("a", 0, 1, 2)
    key = Key(names.RUNS, "r1")
    document = await bench.store.get(key)
    assert document is not None
    await bench.store.commit([Delete(key, document.version)])
    await bench.accept()
    await bench.lease("b")
    await bench.events("b", 0)
    await bench.events("b", 1, 2, 3)
    assert sequences(await bench.feed.poll("r1", -1, 0)) == [0, 1, 2, 3]


async def test_a_page_is_bounded_and_the_next_goes_on() -> None:
    bench = await running()
    for number in range(12):
        await bench.events("a", number)
    pages = [await bench.feed.poll("r1", after, 0) for after in (-1, 3, 7)]
    assert [sequences(page) for page in pages] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [page.last for page in pages] == [3, 7, 11]


async def test_a_stream_follows_to_the_last_event_of_the_end() -> None:
    bench = await running()
    seen: list[object] = []

    async def follow() -> Page | None:
        page = None
        async with contextlib.aclosing(bench.feed.follow("r1", -1, 1000)) as pages:
            async for page in pages:
                seen.extend(sequences(page))
        return page

    following = asyncio.create_task(follow())
    await bench.clock.advance(2)
    await bench.events("a", 0, 1)
    await bench.clock.advance(5)
    await bench.events("a", 2)
    await bench.progress("a", "completed")
    last = await following
    assert last is not None
    assert last.complete
    assert seen == [0, 1, 2]


async def test_a_stream_ends_with_its_time() -> None:
    bench = await running()

    async def follow() -> int:
        return len([page async for page in bench.feed.follow("r1", -1, 20)])

    following = asyncio.create_task(follow())
    await bench.clock.advance(20)
    assert await following == 20, "one look a second"


async def test_a_drain_ends_polls_and_streams_at_once() -> None:
    bench = await running()

    async def follow() -> None:
        async for _ in bench.feed.follow("r1", -1, 1000):
            pass

    async with waking_on_drain(bench.watch, bench.draining):
        waits = [asyncio.create_task(follow()), asyncio.create_task(bench.feed.poll("r1", -1, 30))]
        await bench.clock.advance(0.5)
        bench.draining.set()
        await asyncio.wait(waits)
    assert bench.clock.monotonic() == 0.5


async def test_waits_are_bounded_in_number_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await running()
    monkeypatch.setattr(watch_module, "WATCHERS", 2)
    waits = [asyncio.create_task(bench.feed.poll("r1", -1, 30)) for _ in range(2)]
    await bench.clock.advance(0.5)
    with pytest.raises(Problem) as caught:
        await bench.feed.poll("r1", -1, 30)
    assert (caught.value.status, caught.value.code) == (503, "too_many_waits")
    await bench.progress("a", "completed")
    await asyncio.gather(*waits)
    assert bench.watch._signals == {}
    assert bench.watch.waits == 0
