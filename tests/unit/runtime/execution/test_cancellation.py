"""Waiting for a cancellation: asked again and again, never in a hurry, and never a reason for a run to fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.clock import ManualClock
from runtime.execution.callback_messages import CallbackRefused, CallbackUnavailable, Cancellation
from runtime.execution.cancellation import ASK_SECONDS, WAIT_SECONDS, until_stopped
from runtime.execution.lease import RunLease
from tests.support.executor_bench import RecordedApi

GOES_ON = Cancellation(cancel_requested=False, ended=False)
STOP = Cancellation(cancel_requested=True, ended=False)
ENDED = Cancellation(cancel_requested=False, ended=True)


class Held(RecordedApi):
    """Holds a question as long as a script says, and counts the questions."""

    def __init__(self, clock: ManualClock, held: list[float]) -> None:
        super().__init__()
        self.clock = clock
        self.holds = held
        self.asked_at: list[float] = []

    async def cancellation(self, *, wait: int) -> Cancellation:
        assert wait == WAIT_SECONDS
        self.asked_at.append(self.clock.monotonic())
        await self.clock.sleep(self.holds.pop(0))
        return await super().cancellation(wait=wait)


def gap(hold: float) -> float:
    """From one question to the next, by how long the first was held."""
    return max(hold, ASK_SECONDS)


@given(st.lists(st.integers(0, 8 * WAIT_SECONDS).map(lambda eighths: eighths / 8), min_size=1, max_size=20))
def test_the_next_question_follows_at_once_where_the_last_one_was_held_and_later_where_it_was_not(
    held: list[float],
) -> None:
    async def scenario() -> list[float]:
        clock = ManualClock()
        api = Held(clock, list(held))
        for _ in held[:-1]:
            api.stopped.put_nowait(GOES_ON)
        api.stopped.put_nowait(STOP)
        task = asyncio.create_task(until_stopped(api, clock))
        await clock.advance(sum(map(gap, held)) + 1)
        assert task.done()
        assert await task == STOP
        return api.asked_at

    asked = asyncio.run(scenario())
    gaps = [after - before for before, after in pairwise(asked)]
    assert gaps == pytest.approx(list(map(gap, held[:-1])))


async def test_an_api_that_does_not_answer_is_asked_again_later() -> None:
    clock, api = ManualClock(), RecordedApi()
    for answer in (CallbackUnavailable("no"), CallbackUnavailable("no"), STOP):
        api.stopped.put_nowait(answer)
    task = asyncio.create_task(until_stopped(api, clock))
    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.1)
    assert await task == STOP


@pytest.mark.parametrize(("answer", "said"), [(CallbackRefused("gone", status=404), None), (ENDED, ENDED)])
async def test_nothing_is_asked_once_there_is_nothing_to_hear(
    answer: Cancellation | CallbackRefused, said: Cancellation | None
) -> None:
    clock, api = ManualClock(), RecordedApi()
    api.stopped.put_nowait(answer)
    assert await until_stopped(api, clock) == said


@pytest.mark.parametrize(("answer", "cancelled"), [(STOP, True), (ENDED, False)])
async def test_a_lease_is_cancelled_by_its_owner_and_not_by_an_end(answer: Cancellation, cancelled: bool) -> None:
    api, clock = RecordedApi(), ManualClock()
    lease = RunLease(api, "r1.1", clock, timedelta(seconds=150))
    api.stopped.put_nowait(answer)
    await lease.heed()
    assert (lease.cancel_requested, lease.cancelled.is_set()) == (cancelled, cancelled)
