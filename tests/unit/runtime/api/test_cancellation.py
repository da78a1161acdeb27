"""The question whether a run is to stop: answered as soon as there is something to say, within a second wherever it
was written."""

from __future__ import annotations

import asyncio

import pytest

from runtime.api import cancellation
from tests.support.api_bench import ApiBench

GOES_ON = {"cancel_requested": False, "ended": False}
STOP = {"cancel_requested": True, "ended": False}


async def running() -> ApiBench:
    bench = ApiBench()
    await bench.accept()
    await bench.lease("a")
    return bench


async def test_a_run_that_goes_on_holds_the_question_until_its_time_is_over() -> None:
    bench = await running()
    poll = asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20))
    await bench.clock.advance(19.9)
    assert not poll.done()
    await bench.clock.advance(0.1)
    assert await poll == GOES_ON
    assert bench.watch.waits == 0


async def test_a_cancellation_that_this_process_records_is_said_at_once() -> None:
    bench = await running()
    poll = asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20))
    await bench.clock.advance(0.1)
    await bench.cancel()
    await bench.clock.advance(0)
    assert poll.done()
    assert await poll == STOP


async def test_a_cancellation_that_another_process_records_is_said_within_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = await running()
    poll = asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20))
    await bench.clock.advance(3.1)
    monkeypatch.setattr(bench.watch, "notify", lambda _run_id: None)  # another process knows nothing of this one
    await bench.cancel()
    await bench.clock.advance(0.8)
    assert poll.done()
    assert await poll == STOP


async def test_an_older_generation_and_an_ended_run_have_ended() -> None:
    bench = await running()
    assert await bench.cancellations.poll("r1", "r1.0", 20) == {**GOES_ON, "ended": True}
    await bench.progress("a", "completed")
    assert await bench.cancellations.poll("r1", "r1.1", 20) == {**GOES_ON, "ended": True}


async def test_nothing_is_held_for_a_caller_that_left() -> None:
    bench = await running()
    left = asyncio.Event()
    poll = asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20, left.is_set))
    await bench.clock.advance(5)
    assert not poll.done()
    left.set()
    await bench.clock.advance(1)
    assert poll.done()
    assert (await poll, bench.watch.waits) == (GOES_ON, 0)


async def test_a_process_that_holds_enough_answers_at_once_and_hears_of_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "HELD", 3)
    bench = await running()
    held = [asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20)) for _ in range(3)]
    await bench.clock.advance(0.1)
    assert await bench.cancellations.poll("r1", "r1.1", 20) == GOES_ON
    await bench.cancel()
    assert await bench.cancellations.poll("r1", "r1.1", 20) == STOP
    assert await asyncio.gather(*held) == [STOP] * 3
    await bench.progress("a", "cancelled")
    assert bench.watch.waits == 0


async def test_a_process_that_drains_holds_nobody() -> None:
    bench = await running()
    poll = asyncio.create_task(bench.cancellations.poll("r1", "r1.1", 20))
    await bench.clock.advance(1)
    bench.draining.set()
    bench.watch.wake_all()
    assert await poll == GOES_ON
