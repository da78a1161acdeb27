"""kill -9 at every step of a delivery loses nothing, repeats nothing that ended, and leaves no hole in the events.

Faults are ordered through the sandbox: an instance gets, with its start, the one call at which it dies. Not covered:
crashes of the broker and the database (their own tests), and of the API (test_api_crashes).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

from structlog.testing import capture_logs

from sandbox.cloud_run.faults import Action, Fault, Point
from tests.support.local import QUICK, WORKER, RunningStack, local_stack

RUNS: Final = 200
KILLS: Final = 24
"""Instances that are ordered to die; each takes with it every delivery that it holds."""

STEPS: Final = (
    (Point.DOCUMENTS_BEFORE, "create pubsub-claims"),  # read, not claimed
    (Point.DOCUMENTS_AFTER, "create pubsub-claims"),  # claimed, and nobody knows
    (Point.HTTP_BEFORE, "/execution/progress"),  # claimed, no lease, or worked and not told
    (Point.HTTP_AFTER, "/execution/progress"),  # leased, or told and not settled
    (Point.HTTP_BEFORE, "/execution/events"),  # worked, events unsent
    (Point.HTTP_AFTER, "/execution/events"),  # events durable, sender dead
    (Point.DOCUMENTS_BEFORE, "replace pubsub-claims"),  # ended, not settled
    (Point.DOCUMENTS_AFTER, "replace pubsub-claims"),  # settled, not acknowledged
)
"""The call before or after which a step of the delivery begins."""

CHANGES: Final[dict[str, Any]] = {
    "holdfast:worker": {
        **QUICK["holdfast:worker"],
        "max_attempts": 20,
        "concurrency": 8,
        "max_instances": 4,
    }
}


def orders(seed: int) -> list[Fault]:
    """Each step several times, dying at the first, second, ... tenth matching call of its instance."""
    choose = random.Random(seed)  # noqa: S311 - picks test cases
    steps = itertools.islice(itertools.cycle(STEPS), KILLS)
    return [Fault(point=point, match=match, action=Action.KILL, nth=choose.randint(1, 10)) for point, match in steps]


async def test_every_run_ends_once_whatever_step_its_worker_is_killed_at(tmp_path: Path) -> None:
    with capture_logs() as logs:
        await _kill_and_check(tmp_path, logs)


async def _kill_and_check(state_dir: Path, logs: list[Any]) -> None:
    async with local_stack(state_dir, CHANGES) as running:
        for fault in orders(seed=1):
            running.stack.cloud_run.order_faults(WORKER, [fault])
        await running.kill(WORKER)  # those that run have no fault
        ids = [(await running.submit())["run_id"] for _ in range(RUNS)]
        watchers = asyncio.Semaphore(16)  # a long poll holds a request of the API, which has other callers

        async def ended_run(run_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
            async with watchers:
                return await running.ended(run_id, 400)

        ended = await asyncio.gather(*(ended_run(run_id) for run_id in ids))

        states = Counter(record["state"] for record, _ in ended)
        assert states == {"succeeded": RUNS}, (states, running.logs.text())
        for record, events in ended:
            _check_record(record)
            _check_events(record, events)
        await running.stack.pubsub.wait_idle(timeout=60)
        await _check_nothing_is_left(running)
        cut = sum(entry["event"] == "instance_lost" for entry in logs)
        assert cut >= RUNS // 2, f"{cut} deliveries were cut off: too few to show anything"
        assert any(record["attempt"] > 1 for record, _ in ended), "no kill hit a run after its lease"


def _check_record(record: dict[str, Any]) -> None:
    terminal = [entry for entry in record["history"] if entry["state"] in {"succeeded", "failed", "expired"}]
    assert len(terminal) == 1, f"one end: {record['history']}"
    assert record["result"] == "Hello Ada"


def _check_events(record: dict[str, Any], events: list[dict[str, Any]]) -> None:
    assert [event["sequence"] for event in events] == list(range(len(events))), "no hole, no duplicate"
    assert len({event["id"] for event in events}) == len(events)
    starts = [event for event in events if event["payload"] == {"level": "info", "message": "Execution started"}]
    ends = [event for event in events if event["payload"] == {"level": "info", "message": "Execution completed"}]
    assert 1 <= len(starts) <= record["attempt"]
    assert len(ends) >= 1


async def _check_nothing_is_left(running: RunningStack) -> None:
    counts = running.counts()
    assert (counts.pending, counts.in_flight) == (0, 0)
    assert counts.acknowledged == RUNS, "each message acknowledged, none given up"
    assert counts.dead_lettered == 0
