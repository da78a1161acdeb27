"""kill -9 the API between a run's record and its message: the run still happens, once.

The sweeper publishes what has been unpublished for a minute; the minute is real here, and asked for by hand.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from sandbox.cloud_run.faults import Action, Fault, Point
from tests.support.local import API, HELLO, local_stack


@pytest.mark.timeout(240)
async def test_a_run_whose_api_died_before_publishing_is_published_by_the_sweeper_and_runs_once(
    tmp_path: Path,
) -> None:
    with capture_logs():
        async with local_stack(tmp_path) as running:
            cloud_run = running.stack.cloud_run
            cloud_run.order_faults(API, [Fault(point=Point.DOCUMENTS_AFTER, match="create runs/", action=Action.KILL)])
            await running.kill(API)
            body = {"run_id": "orphan", "engine": "flow", "flow": HELLO, "input": {"name": "Ada"}}
            async with running.session.post("/v1/runs", json=body) as response:
                assert response.status == 503, "the caller is not told that it was accepted"
            assert (await running.run("orphan"))["state"] == "queued", "and yet it was"
            async with running.session.post("/v1/runs", json=body) as response:
                assert response.status == 200
                assert (await response.json())["duplicate"] is True
            async with asyncio.timeout(150):
                while (await running.run("orphan"))["state"] == "queued":
                    await running.stack.scheduler.run_now("holdfast-tick")
                    await asyncio.sleep(2)
            record, events = await running.ended("orphan")
            assert record["state"] == "succeeded"
            assert record["attempt"] == 1
            assert [event["sequence"] for event in events] == list(range(len(events)))
            await running.stack.pubsub.wait_idle(timeout=10)
            assert running.counts().acknowledged == 1, "published once"


async def test_the_api_killed_at_any_call_of_a_submission_answers_the_repeat_with_one_run(tmp_path: Path) -> None:
    points = [
        Fault(point=Point.DOCUMENTS_BEFORE, match="create runs/", action=Action.KILL),
        Fault(point=Point.DOCUMENTS_BEFORE, match="replace runs/", action=Action.KILL),
        Fault(point=Point.DOCUMENTS_AFTER, match="replace runs/", action=Action.KILL),
    ]
    with capture_logs():
        async with local_stack(tmp_path) as running:
            for number, fault in enumerate(points):
                running.stack.cloud_run.order_faults(API, [fault])
                await running.kill(API)
                run_id = f"repeat-{number}"
                body = {"run_id": run_id, "engine": "flow", "flow": HELLO, "input": {"name": "Ada"}}
                statuses = []
                for _ in range(2):
                    try:
                        async with running.session.post("/v1/runs", json=body) as response:
                            statuses.append(response.status)
                    except aiohttp.ClientError:
                        statuses.append(0)
                assert statuses[-1] in {200, 202}, statuses
                record, _ = await running.ended(run_id)
                assert record["state"] == "succeeded"
                assert record["attempt"] == 1
