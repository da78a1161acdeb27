"""Duplicate, reordered and repeated deliveries do the work once, and an owner at work is never acknowledged away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sandbox.pubsub.faults import Effect, Fault, Step
from tests.support.local import QUICK, RunningStack, local_stack

RUNS = 12
SLOW = {
    "start": "wait",
    "nodes": {
        "wait": {"type": "sleep", "seconds": 1, "next": "tell"},
        "tell": {"type": "emit", "event": "effect", "payload": {"by": "${run.id}"}},
    },
}
CHANGES: dict[str, Any] = {"holdfast:worker": {**QUICK["holdfast:worker"], "concurrency": 12, "max_instances": 2}}


def order(running: RunningStack, effect: Effect, times: int, seconds: float = 0) -> None:
    """Has the next pushes go wrong."""
    running.stack.pubsub.faults.order(Fault(step=Step.PUSH, effect=effect, seconds=seconds), times=times)


async def _all_done_once(running: RunningStack, ids: list[str]) -> None:
    for run_id in ids:
        record, events = await running.ended(run_id)
        assert record["state"] == "succeeded", running.logs.text()
        assert record["attempt"] == 1, "the work was done once"
        assert [event["payload"] for event in events if event["event_type"] == "effect"] == [{"by": run_id}]
    await running.stack.pubsub.wait_idle(timeout=60)
    counts = running.counts()
    assert (counts.pending, counts.in_flight, counts.dead_lettered) == (0, 0, 0)


async def test_messages_that_are_delivered_twice_at_once_are_worked_once(tmp_path: Path) -> None:
    async with local_stack(tmp_path, CHANGES) as running:
        order(running, Effect.DUPLICATE, RUNS)
        ids = [(await running.submit(flow=SLOW))["run_id"] for _ in range(RUNS)]
        await _all_done_once(running, ids)
        assert len(running.logs.events("delivery_parked")) > 0, "no duplicate met an owner: the test shows nothing"


async def test_messages_whose_acknowledgement_is_lost_come_again_and_are_acknowledged_without_work(
    tmp_path: Path,
) -> None:
    async with local_stack(tmp_path, CHANGES) as running:
        order(running, Effect.DROP_RESPONSE, RUNS)
        ids = [(await running.submit(flow=SLOW))["run_id"] for _ in range(RUNS)]
        await _all_done_once(running, ids)


async def test_the_order_of_deliveries_changes_nothing(tmp_path: Path) -> None:
    async with local_stack(tmp_path, CHANGES) as running:
        order(running, Effect.REORDER, RUNS)
        ids = [(await running.submit(flow=SLOW))["run_id"] for _ in range(RUNS)]
        await _all_done_once(running, ids)


async def test_the_same_request_sent_many_times_at_once_is_one_run(tmp_path: Path) -> None:
    async with local_stack(tmp_path, CHANGES) as running:
        answers = await asyncio.gather(*(running.submit(flow=SLOW, run_id="same") for _ in range(10)))
        assert sum(answer.get("duplicate", False) is False for answer in answers) == 1
        await _all_done_once(running, ["same"])
