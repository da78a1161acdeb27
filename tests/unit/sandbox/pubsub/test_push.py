"""The push loop: what it sends, how much at once, and what an answer or its absence means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sandbox.pubsub.endpoint import PushFailed
from sandbox.pubsub.faults import Effect, Fault, Faults, Step
from sandbox.pubsub.push import PushLoop, PushTools
from sandbox.pubsub.state import Counts, Feed
from sandbox.pubsub.window import SMALLEST
from sandbox.world import World
from tests.support.brokers import Bench
from tests.support.worlds import (
    ACCOUNT_GRANT,
    AGENT_MAY_MINT,
    PUSH,
    WORKER_URL,
    agent_may_mint,
    empty_world,
    push_config,
    subscription,
    topic,
)

JOBS = "projects/p-test/topics/jobs"
NAME = "projects/p-test/subscriptions/s"
Answer = Callable[[int], Awaitable[int]]
"""(number of the call, from 1) -> status."""


@dataclass(slots=True)
class Posts:
    """Keeps what is posted and answers as told."""

    answer: Answer | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    active: int = 0
    most_active: int = 0

    async def __call__(self, url: str, token: str | None, body: bytes, seconds: float) -> int:
        assert url == WORKER_URL
        assert seconds == 60
        self.bodies.append(json.loads(body))
        self.tokens.append(token)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            return 204 if self.answer is None else await self.answer(len(self.bodies))
        finally:
            self.active -= 1


def statuses(*each: int) -> Answer:
    """Answers one after another, then 204."""

    async def answer(number: int) -> int:
        return each[number - 1] if number <= len(each) else 204

    return answer


@dataclass(slots=True)
class Rig:
    """One push subscription at work."""

    bench: Bench
    feed: Feed
    posts: Posts
    faults: Faults

    async def pushed(self, count: int = 1, **draft: Any) -> None:
        """Publishes messages and lets everything come to rest that needs no time."""
        for number in range(count):
            self.bench.publish(JOBS, str(number), **draft)
        await self.bench.clock.advance(0)

    @property
    def counts(self) -> Counts:
        return self.feed.counts()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = empty_world(tmp_path)
    topic(made, "jobs")
    agent_may_mint(made)
    return made


@asynccontextmanager
async def pushing(world: World, answer: Answer | None = None, **inputs: Any) -> AsyncIterator[Rig]:
    """Runs the push loop of a subscription."""
    subscription(world, "s", JOBS, **{"pushConfig": push_config(), **inputs})
    bench = Bench(world)
    posts, faults, feed = Posts(answer), Faults(), bench.broker.feed(NAME)
    tools = PushTools(
        broker=bench.broker,
        notes=bench.notes,
        post=posts,
        id_token=lambda email, audience: f"{email} for {audience}",
        grants=bench.grants,
        agent=world.agent("gcp-sa-pubsub"),
        clock=bench.clock,
        faults=faults,
    )
    loop = asyncio.create_task(PushLoop(feed, tools).run())
    yield Rig(bench, feed, posts, faults)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_a_message_is_pushed_once_with_the_accounts_token(world: World) -> None:
    async with pushing(world) as rig:
        await rig.pushed()
        assert rig.counts == Counts(0, 0, 1, 0, 0)
    assert rig.posts.tokens == [f"{PUSH} for {WORKER_URL}"]
    assert rig.posts.bodies[0]["subscription"] == NAME
    assert "deliveryAttempt" not in rig.posts.bodies[0]


async def test_a_subscription_without_an_account_is_pushed_without_a_token(world: World) -> None:
    async with pushing(world, pushConfig=push_config(account=None)) as rig:
        await rig.pushed()
    assert rig.posts.tokens == [None]


@pytest.mark.parametrize("status", [102, 200, 201, 202, 204])
async def test_five_statuses_acknowledge(world: World, status: int) -> None:
    """BR-11."""
    async with pushing(world, statuses(status)) as rig:
        await rig.pushed()
        assert rig.counts.acknowledged == 1


@pytest.mark.parametrize("status", [100, 203, 205, 206, 301, 302, 400, 401, 403, 404, 413, 429, 500, 503])
async def test_every_other_status_is_a_refusal(world: World, status: int) -> None:
    """BR-11."""
    async with pushing(world, statuses(status), retryPolicy={}) as rig:
        await rig.pushed()
        assert rig.counts == Counts(1, 0, 0, 0, 0)


async def test_a_connection_that_breaks_is_a_refusal(world: World) -> None:
    async def broken(_: int) -> int:
        raise PushFailed("cut off")

    async with pushing(world, broken, retryPolicy={}) as rig:
        with capture_logs() as logs:
            await rig.pushed()
        assert rig.counts == Counts(1, 0, 0, 0, 0)
    assert [(entry["event"], entry["reason"]) for entry in logs] == [("push_not_acknowledged", "cut off")]


async def test_no_answer_within_the_ack_deadline_is_a_refusal_and_the_call_is_cut(world: World) -> None:
    async def never(number: int) -> int:
        await asyncio.Event().wait()
        return number

    async with pushing(world, never, retryPolicy={}) as rig:
        await rig.pushed()
        await rig.bench.clock.advance(59.9)
        assert rig.counts.in_flight == 1
        await rig.bench.clock.advance(0.1)
        assert (rig.counts.pending, rig.posts.active) == (1, 0)


async def test_a_refused_message_is_pushed_again_as_the_retry_policy_says_and_the_others_meanwhile(
    world: World,
) -> None:
    retry = {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    async with pushing(world, statuses(503, 503), retryPolicy=retry) as rig:
        await rig.pushed()
        await rig.bench.clock.advance(9.9)
        assert len(rig.posts.bodies) == 1
        await rig.bench.clock.advance(0.1)
        assert len(rig.posts.bodies) == 2
        await rig.pushed()
        assert rig.counts.acknowledged == 1
        await rig.bench.clock.advance(20)
        assert rig.counts.acknowledged == 2


async def test_without_a_retry_policy_a_failing_endpoint_is_left_alone_for_longer_and_longer(world: World) -> None:
    times: list[float] = []

    async def fail(_: int) -> int:
        times.append(round(rig.bench.clock.monotonic(), 1))
        return 500

    async with pushing(world, fail) as rig:
        await rig.pushed()
        await rig.bench.clock.advance(3.2)
    assert times == [0.0, 0.1, 0.3, 0.7, 1.5, 3.1]


async def test_the_attempt_is_told_and_counted_where_there_is_a_dead_letter_policy(world: World) -> None:
    letters = {"deadLetterTopic": "dead", "maxDeliveryAttempts": 5}
    async with pushing(world, statuses(500, 500), deadLetterPolicy=letters) as rig:
        await rig.pushed()
        await rig.bench.clock.advance(1)
    assert [body["deliveryAttempt"] for body in rig.posts.bodies] == [1, 2, 3]


async def test_no_more_pushes_than_the_window_are_in_flight_and_success_widens_it(world: World) -> None:
    async def slow(number: int) -> int:
        await rig.bench.clock.sleep(1)
        return 204 + 0 * number

    async with pushing(world, slow) as rig:
        await rig.pushed(100)
        assert rig.posts.active == SMALLEST
        await rig.bench.clock.advance(1)
        assert rig.posts.active == 2 * SMALLEST
        await rig.bench.clock.advance(1)
        assert rig.posts.active == 4 * SMALLEST
        await rig.bench.clock.advance(10)
        assert rig.counts.acknowledged == 100


async def test_a_stuck_push_holds_back_nothing_but_its_place_in_the_window(world: World) -> None:
    async def first_is_stuck(number: int) -> int:
        if number == 1:
            await asyncio.Event().wait()
        return 204

    async with pushing(world, first_is_stuck) as rig:
        await rig.pushed(50)
        assert rig.counts == Counts(0, 1, 49, 0, 0)


async def test_messages_of_one_key_are_pushed_one_after_another_also_after_a_refusal(world: World) -> None:
    retry = {"minimumBackoff": "10s", "maximumBackoff": "10s"}
    async with pushing(world, statuses(204, 503), enableMessageOrdering=True, retryPolicy=retry) as rig:
        await rig.pushed(4, ordering_key="k")
        assert len(rig.posts.bodies) == 2
        await rig.bench.clock.advance(10)
    ids = [body["message"]["messageId"] for body in rig.posts.bodies]
    assert ids == [ids[0], ids[1], ids[1], ids[3], ids[4]]
    assert ids[3] > ids[2]
    assert rig.posts.most_active == 1


async def test_without_the_agents_grant_nothing_is_pushed_or_counted_until_it_is_declared(world: World) -> None:
    world.remove(ACCOUNT_GRANT, AGENT_MAY_MINT)
    async with pushing(world) as rig:
        with capture_logs() as logs:
            await rig.pushed(3)
            await rig.bench.clock.advance(30)
        assert rig.posts.bodies == []
        [warning] = logs
        wanted = f"missing grant: roles/iam.serviceAccountTokenCreator on service account {PUSH} for "
        assert warning["grant"] == wanted + world.agent("gcp-sa-pubsub")
        agent_may_mint(world)
        await rig.bench.clock.advance(1)
        assert rig.counts.acknowledged == 3
    assert all(record.attempts == 1 for record in rig.bench.notes.records if hasattr(record, "attempts"))


async def test_a_subscription_that_stops_pushing_ends_its_loop_after_the_last_answer(world: World) -> None:
    async with pushing(world) as rig:
        subscription(world, "s", JOBS)
        rig.bench.broker.sync()
        await rig.pushed()
    assert rig.posts.bodies == []
    assert len(rig.bench.take(rig.feed)) == 1, "from now on it can be pulled"


async def test_an_ordered_error_is_not_sent_and_counts_as_refused(world: World) -> None:
    async with pushing(world, retryPolicy={}) as rig:
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.ERROR, name="s", status=429))
        with capture_logs() as logs:
            await rig.pushed()
        assert rig.posts.bodies == []
        assert logs[0]["reason"] == "status 429"
        await rig.bench.clock.advance(10)
        assert rig.counts.acknowledged == 1


async def test_an_ordered_delay_runs_against_the_ack_deadline(world: World) -> None:
    async with pushing(world, retryPolicy={}) as rig:
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.DELAY, seconds=5))
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.DELAY, seconds=61))
        await rig.pushed(2)
        await rig.bench.clock.advance(5)
        assert (len(rig.posts.bodies), rig.counts.acknowledged) == (1, 1)
        await rig.bench.clock.advance(55)
        assert (len(rig.posts.bodies), rig.counts.pending) == (1, 1)


async def test_an_ordered_duplicate_is_sent_twice_and_the_first_answer_counts(world: World) -> None:
    async with pushing(world, statuses(503, 204), retryPolicy={}) as rig:
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.DUPLICATE))
        await rig.pushed()
        assert rig.counts == Counts(1, 0, 0, 0, 0)
    assert rig.posts.bodies[0] == rig.posts.bodies[1]


async def test_an_ordered_reordering_lets_the_next_message_overtake_and_counts_nothing(world: World) -> None:
    letters = {"deadLetterTopic": "dead", "maxDeliveryAttempts": 5}
    async with pushing(world, deadLetterPolicy=letters) as rig:
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.REORDER, seconds=3))
        await rig.pushed(2)
        await rig.bench.clock.advance(3)
    ids = [int(body["message"]["messageId"]) for body in rig.posts.bodies]
    assert ids[0] > ids[1]
    assert [body["deliveryAttempt"] for body in rig.posts.bodies] == [1, 1]


async def test_an_ordered_lost_answer_is_a_refusal_of_what_was_handled(world: World) -> None:
    async with pushing(world, retryPolicy={}) as rig:
        rig.faults.order(Fault(step=Step.PUSH, effect=Effect.DROP_RESPONSE))
        await rig.pushed()
        assert (len(rig.posts.bodies), rig.counts.pending) == (1, 1)
        await rig.bench.clock.advance(10)
        assert (len(rig.posts.bodies), rig.counts.acknowledged) == (2, 1)


async def test_a_push_that_breaks_off_for_a_reason_of_our_own_is_reported_and_tried_again_after_a_pause(
    world: World,
) -> None:
    async def broken_at_first(number: int) -> int:
        if number == 1:
            raise RuntimeError("a fault of this program")
        return 204

    async with pushing(world, broken_at_first) as rig:
        with capture_logs() as logs:
            await rig.pushed()
        assert [entry["event"] for entry in logs] == ["push_broke_off"]
        assert rig.counts == Counts(1, 0, 0, 0, 0)
        await rig.bench.clock.advance(0.1)
        assert rig.counts == Counts(0, 0, 1, 0, 0)


def test_a_fault_that_a_step_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="publish has no fault reorder"):
        Fault(step=Step.PUBLISH, effect=Effect.REORDER)
