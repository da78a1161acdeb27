"""Workers come and go while they work: SIGTERM at each step of a delivery, and two revisions on one subscription.

Nothing waits for a claim to go stale: what a worker that ends has begun is given back, or finished. Not covered: kill
-9 (test_crashes), and what claims of other revisions mean (the worker's unit tests).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from runtime.contract.names import CLAIMS
from sandbox.cloud_run.faults import Action, Fault, Point
from sandbox.pubsub.envelope import envelope
from sandbox.world import SERVICE
from tests.support.local import QUICK, WORKER, RunningStack, local_stack
from tests.support.store import stored

CHANGES: dict[str, Any] = {"holdfast:worker": {**QUICK["holdfast:worker"], "concurrency": 8, "max_instances": 1}}
HELD = 3.0
"""Seconds that a step is held up, so that it can be met."""
LONG = 6
"""Seconds of work, long enough for a busy machine to do what is to be done meanwhile."""
SECOND = f"{WORKER}-00002"


def slow(seconds: int) -> dict[str, Any]:
    return {"start": "wait", "nodes": {"wait": {"type": "sleep", "seconds": seconds}}}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(40):
        while not holds():  # noqa: ASYNC110 - what is waited for is another process's
            await asyncio.sleep(0.02)


async def next_instance(running: RunningStack, *faults: Fault) -> None:
    """The worker from now on is one that has just started, and meets these."""
    running.stack.cloud_run.order_faults(WORKER, faults)
    await running.kill(WORKER)


async def terminate(running: RunningStack) -> None:
    old = {instance.id for instance in running.stack.cloud_run.instances(WORKER)}
    running.stack.cloud_run.kill(WORKER, signal.SIGTERM)
    await until(lambda: not old & {instance.id for instance in running.stack.cloud_run.instances(WORKER)})


def busy(running: RunningStack) -> bool:
    return any(instance.in_flight for instance in running.stack.cloud_run.instances(WORKER))


async def push_again(running: RunningStack) -> int:
    """The one message in flight, pushed a second time beside its first delivery; returns the answer's status."""
    pubsub = running.stack.pubsub
    feed = pubsub.broker.feed(str(running.stack.deployment.outputs["execution_subscription"]))
    (entry,) = feed.backlog
    push = feed.subscription.push
    assert push is not None
    assert push.account is not None
    token = running.stack.identity.id_token(push.account, push.audience)
    body = envelope(feed.subscription, entry.message, entry.attempts)
    return await pubsub._endpoints.post(push.endpoint, token, body, 60)


async def all_completed(running: RunningStack) -> None:
    """No claim is left; a publication whose answer was late may have been repeated, and its copy is worked too."""
    async with asyncio.timeout(20):
        while {claim["state"] for claim in (await stored(running, CLAIMS)).values()} != {"completed"}:  # noqa: ASYNC110 - in a store
            await asyncio.sleep(0.1)


async def comes_to(running: RunningStack, run_id: str, state: str) -> None:
    async with asyncio.timeout(40):
        while (await running.run(run_id))["state"] != state:  # noqa: ASYNC110 - its process tells nobody
            await asyncio.sleep(0.02)


async def ended_well(running: RunningStack, run_id: str, attempts: int) -> None:
    record, _ = await running.ended(run_id)
    assert (record["state"], record["attempt"]) == ("succeeded", attempts), running.logs.text()


async def test_a_worker_that_is_told_to_end_gives_back_or_finishes_what_it_has(tmp_path: Path) -> None:
    def held(match: str) -> Fault:
        return Fault(point=Point.DOCUMENTS_BEFORE, match=match, action=Action.DELAY, seconds=HELD)

    with capture_logs() as logs:
        async with local_stack(tmp_path, CHANGES) as running:
            await next_instance(running, held("create pubsub-claims"))
            await running.submit(run_id="before-the-claim")
            await until(lambda: busy(running))
            await terminate(running)
            await ended_well(running, "before-the-claim", attempts=1)

            await running.submit(run_id="in-the-engine", flow=slow(LONG))
            await comes_to(running, "in-the-engine", "running")
            again = asyncio.create_task(push_again(running))
            await until(lambda: running.logs.events("delivery_parked"))
            await terminate(running)
            assert await again == 503, "parked, and sent away"
            await ended_well(running, "in-the-engine", attempts=2)

            await running.stack.pubsub.wait_idle(timeout=40)
            await next_instance(running, held("replace pubsub-claims"))
            await running.submit(run_id="while-it-settles")
            await comes_to(running, "while-it-settles", "succeeded")
            await terminate(running)
            await ended_well(running, "while-it-settles", attempts=1)

            await running.stack.pubsub.wait_idle(timeout=40)
            await all_completed(running)
            assert running.logs.events("claim_taken_over") == [], "nothing had to go stale"
    ends = [entry["exit_code"] for entry in logs if entry["event"] == "instance_ended" and WORKER in entry["instance"]]
    assert ends.count(0) == 3, ends


async def test_a_new_revision_leaves_the_old_ones_work_alone_and_does_the_rest(tmp_path: Path) -> None:
    with capture_logs():
        async with local_stack(tmp_path, CHANGES) as running:
            await running.submit(run_id="of-the-old-one", flow=slow(LONG))
            await comes_to(running, "of-the-old-one", "running")

            world = running.stack.deployment.world
            declared = world.find(SERVICE, WORKER)
            assert declared is not None
            world.put(replace(declared, outputs={**declared.outputs, "latestReadyRevision": SECOND}))
            assert await running.stack.cloud_run.deploy() == {}

            again = asyncio.create_task(push_again(running))
            await running.submit(run_id="of-the-new-one")
            await ended_well(running, "of-the-new-one", attempts=1)
            await until(lambda: running.logs.events("delivery_parked"))
            await ended_well(running, "of-the-old-one", attempts=1)
            assert await again == 204, "the new revision saw the old one's settlement, and did not work"

            await running.stack.pubsub.wait_idle(timeout=40)
            claims = await stored(running, CLAIMS)
            owners = {claim["owner"].split("/")[0] for claim in claims.values()}
            assert owners == {f"{WORKER}-00001", SECOND}
            assert {(claim["state"], claim["attempts"]) for claim in claims.values()} == {("completed", 1)}
