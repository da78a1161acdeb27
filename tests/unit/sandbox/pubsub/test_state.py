"""The broker: who gets a message, and every way that it can go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from sandbox.pubsub.backlog import Lease
from sandbox.pubsub.journal_file import Attempted, Recovery, Removed, Settled, Stored, Waiting
from sandbox.pubsub.message import Draft
from sandbox.pubsub.state import Counts, Feed, NotDeclared
from sandbox.world import SUBSCRIPTION, TOPIC, World
from tests.support.brokers import NOW, Bench, message
from tests.support.worlds import declare, empty_world, may_consume, may_publish, subscription, topic

JOBS = "projects/p-test/topics/jobs"
DEAD = "projects/p-test/topics/dead"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = empty_world(tmp_path)
    topic(made, "jobs")
    return made


def bench_with(world: World, **inputs: Any) -> tuple[Bench, Feed]:
    """A broker with one subscription."""
    name = subscription(world, "s", JOBS, **inputs)
    bench = Bench(world)
    return bench, bench.broker.feed(name)


def dead_lettering(world: World, *, publish: bool = True, consume: bool = True) -> tuple[Bench, Feed]:
    """A broker that dead-letters after 5 deliveries, with the agent's grants as told."""
    topic(world, "dead")
    subscription(world, "dead-sub", DEAD)
    agent = world.agent("gcp-sa-pubsub")
    if publish:
        may_publish(world, "dead", agent)
    if consume:
        may_consume(world, "s", agent)
    return bench_with(world, deadLetterPolicy={"deadLetterTopic": DEAD, "maxDeliveryAttempts": 5})


def fail_once(bench: Bench, feed: Feed) -> Lease:
    [lease] = bench.take(feed)
    bench.broker.reject(feed, lease)
    return lease


def test_every_subscription_of_the_topic_gets_the_message_that_its_filter_lets_through(world: World) -> None:
    everything = subscription(world, "everything", JOBS)
    some = subscription(world, "some", JOBS, filter='attributes.kind = "a"')
    subscription(world, "elsewhere", topic(world, "other"))
    bench = Bench(world)
    assert bench.publish(JOBS, attributes={"kind": "a"}).subscriptions == (everything, some)
    assert bench.publish(JOBS, attributes={"kind": "b"}).subscriptions == (everything,)
    assert len(bench.broker.feed(some).backlog) == 1


def test_ids_rise_and_go_on_above_those_of_an_earlier_life(world: World) -> None:
    subscription(world, "s", JOBS)
    far_ahead = 10**18
    bench = Bench(world, recovery=Recovery([], far_ahead))
    ids = [bench.publish(JOBS).message.id for _ in range(3)]
    assert ids == [far_ahead + 1, far_ahead + 2, far_ahead + 3]


def test_ids_start_at_the_time_so_that_a_lost_journal_does_not_repeat_them(world: World) -> None:
    bench = Bench(world)
    assert bench.publish(JOBS).message.id == int(NOW.timestamp() * 1_000_000) + 1


def test_what_is_not_declared_is_not_found(world: World) -> None:
    bench = Bench(world)
    with pytest.raises(NotDeclared, match="topic projects/p-test/topics/none"):
        bench.publish("projects/p-test/topics/none")
    with pytest.raises(NotDeclared, match="subscription x"):
        bench.broker.feed("x")


def test_a_drawn_up_message_is_delivered_to_nobody_before_it_is_admitted(world: World) -> None:
    bench, feed = bench_with(world)
    stored = bench.broker.draw_up(JOBS, [Draft(data=b"x")])
    assert bench.take(feed) == []
    bench.broker.admit(stored)
    assert len(bench.take(feed)) == 1


def test_an_acknowledged_message_is_recorded_as_settled_once(world: World) -> None:
    bench, feed = bench_with(world)
    stored = bench.publish(JOBS)
    leases = bench.take(feed)
    assert bench.broker.acknowledge(feed, leases) == [Settled(feed.subscription.name, stored.message.id)]
    assert bench.broker.acknowledge(feed, leases) == []
    assert feed.counts() == Counts(0, 0, 1, 0, 0)


def test_every_delivery_is_recorded_with_its_count(world: World) -> None:
    bench, feed = bench_with(world)
    stored = bench.publish(JOBS)
    for _ in range(2):
        fail_once(bench, feed)
    attempts = [record.attempts for record in bench.notes.records if isinstance(record, Attempted)]
    assert attempts == [1, 2]
    assert bench.take(feed)[0].attempt == 3
    assert stored.subscriptions == (feed.subscription.name,)


async def test_a_failed_message_without_a_retry_policy_is_ready_again_at_once(world: World) -> None:
    bench, feed = bench_with(world)
    bench.publish(JOBS)
    fail_once(bench, feed)
    assert len(bench.take(feed)) == 1


async def test_a_failed_message_waits_as_its_retry_policy_says(world: World) -> None:
    bench, feed = bench_with(world, retryPolicy={"minimumBackoff": "10s", "maximumBackoff": "600s"})
    bench.publish(JOBS)
    for delay in (10, 20, 40):
        fail_once(bench, feed)
        await bench.clock.advance(delay - 1)
        assert bench.take(feed) == []
        await bench.clock.advance(1)
    assert bench.take(feed)[0].attempt == 4


async def test_a_pulled_message_comes_back_when_its_ack_deadline_has_passed(world: World) -> None:
    bench, feed = bench_with(world, ackDeadlineSeconds=10)
    bench.publish(JOBS)
    [first] = bench.take(feed)
    await bench.clock.advance(9)
    assert bench.take(feed) == []
    await bench.clock.advance(1)
    [second] = bench.take(feed)
    assert second.attempt == 2
    assert bench.broker.acknowledge(feed, [first]) == [], "the first delivery is over"
    assert len(bench.broker.acknowledge(feed, [second])) == 1


async def test_a_message_is_dropped_when_its_retention_ends_even_while_it_is_delivered(world: World) -> None:
    bench, feed = bench_with(world, messageRetentionDuration="600s", ackDeadlineSeconds=600)
    bench.publish(JOBS, "old")
    [lease] = bench.take(feed)
    await bench.clock.advance(599)
    bench.publish(JOBS, "new")
    bench.broker.expire(feed)
    assert len(feed.backlog) == 2
    await bench.clock.advance(1)
    with capture_logs() as logs:
        bench.broker.expire(feed)
    assert [entry["event"] for entry in logs] == ["message_expired"]
    assert bench.texts(feed) == ["new"]
    assert Settled(feed.subscription.name, lease.message.id) in bench.notes.records
    assert feed.counts().expired == 1
    bench.broker.reject(feed, lease)
    assert len(feed.backlog) == 1, "a dropped message is not put back"


def test_a_message_delivered_too_often_goes_to_the_dead_letter_topic_with_where_it_comes_from(world: World) -> None:
    bench, feed = dead_lettering(world)
    bench.publish(JOBS, "poison", attributes={"a": "b"}, ordering_key="k")
    for _ in range(5):
        fail_once(bench, feed)
    assert feed.counts() == Counts(0, 0, 0, 1, 0)
    [lease] = bench.take(bench.broker.feed("projects/p-test/subscriptions/dead-sub"))
    assert (lease.message.data, lease.message.ordering_key, lease.message.topic) == (b"poison", "k", DEAD)
    assert lease.message.attributes == {
        "a": "b",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": "s",
        "CloudPubSubDeadLetterSourceSubscriptionProject": "p-test",
        "CloudPubSubDeadLetterSourceTopicPublishTime": "2026-01-01T00:00:00Z",
    }


def test_a_dead_letter_is_stored_and_its_source_settled_in_one_entry(world: World) -> None:
    bench, feed = dead_lettering(world)
    stored = bench.publish(JOBS)
    for _ in range(5):
        fail_once(bench, feed)
    copy, settled = bench.notes.records[-2:]
    assert isinstance(copy, Stored)
    assert copy.subscriptions == ("projects/p-test/subscriptions/dead-sub",)
    assert settled == Settled(feed.subscription.name, stored.message.id)


@pytest.mark.parametrize(
    ("publish", "consume", "missing"),
    [
        (False, True, ["roles/pubsub.publisher on topic dead"]),
        (True, False, ["roles/pubsub.subscriber on subscription s"]),
        (False, False, ["roles/pubsub.publisher on topic dead", "roles/pubsub.subscriber on subscription s"]),
    ],
)
def test_without_a_grant_nothing_is_dead_lettered_and_each_missing_one_is_named(
    world: World, publish: bool, consume: bool, missing: list[str]
) -> None:
    """BR-55."""
    bench, feed = dead_lettering(world, publish=publish, consume=consume)
    bench.publish(JOBS)
    with capture_logs() as logs:
        for _ in range(8):
            fail_once(bench, feed)
    agent = world.agent("gcp-sa-pubsub")
    assert [entry["grant"] for entry in logs] == [f"missing grant: {each} for {agent}" for each in missing]
    assert feed.counts() == Counts(1, 0, 0, 0, 0), "deliveries go on"
    may_publish(world, "dead", agent)
    may_consume(world, "s", agent)
    fail_once(bench, feed)
    assert feed.counts().dead_lettered == 1, "with the grants it goes at the next failure"


def test_a_dead_letter_topic_that_is_not_declared_keeps_the_message(world: World) -> None:
    bench, feed = dead_lettering(world)
    bench.publish(JOBS)
    world.remove(TOPIC, "dead")
    bench.broker.sync()
    with capture_logs() as logs:
        for _ in range(6):
            fail_once(bench, feed)
    assert {entry["event"] for entry in logs} == {"dead_letter_topic_missing"}
    assert len(feed.backlog) == 1


def test_a_dead_letter_that_nobody_subscribes_to_is_lost_and_said_to_be(world: World) -> None:
    """BR-56."""
    bench, feed = dead_lettering(world)
    world.remove(SUBSCRIPTION, "dead-sub")
    bench.publish(JOBS)
    with capture_logs() as logs:
        for _ in range(5):
            fail_once(bench, feed)
    assert "dead_letter_lost" in {entry["event"] for entry in logs}
    assert len(feed.backlog) == 0


def test_a_new_subscription_gets_what_is_published_from_then_on(world: World) -> None:
    bench = Bench(world)
    bench.publish(JOBS, "before")
    name = subscription(world, "late", JOBS)
    bench.publish(JOBS, "after")
    assert bench.texts(bench.broker.feed(name)) == ["after"]


def test_a_removed_subscription_loses_its_messages_and_begins_anew(world: World) -> None:
    bench, feed = bench_with(world)
    bench.publish(JOBS)
    world.remove(SUBSCRIPTION, "s")
    bench.broker.sync()
    assert bench.notes.records[-1] == Removed(feed.subscription.name)
    subscription(world, "s", JOBS)
    assert len(bench.broker.feed(feed.subscription.name).backlog) == 0


def test_a_changed_subscription_keeps_its_messages_even_where_the_change_is_unreadable(world: World) -> None:
    bench, feed = bench_with(world)
    bench.publish(JOBS)
    subscription(world, "s", JOBS, ackDeadlineSeconds=99)
    bench.broker.sync()
    assert (feed.subscription.ack_deadline.total_seconds(), len(feed.backlog)) == (99, 1)
    declare(world, SUBSCRIPTION, "s", topic=JOBS, filter="nonsense")
    bench.broker.sync()
    assert len(bench.broker.feed(feed.subscription.name).backlog) == 1
    assert Removed(feed.subscription.name) not in bench.notes.records


def test_messages_of_an_earlier_life_are_delivered_with_their_counts_once_the_subscription_is_declared(
    world: World,
) -> None:
    name = "projects/p-test/subscriptions/s"
    recovery = Recovery([Waiting(name, message(5, "old"), 3)], 5)
    bench = Bench(world, recovery=recovery)
    assert bench.notes.records == [], "an undeclared subscription's messages are left alone"
    subscription(world, "s", JOBS)
    [lease] = bench.take(bench.broker.feed(name))
    assert (lease.message.data, lease.attempt) == (b"old", 4)


def test_an_ack_id_is_never_used_twice_over_lives(world: World) -> None:
    bench, feed = bench_with(world)
    bench.publish(JOBS)
    [lease] = bench.take(feed)
    other = Bench(world, clock=ManualClock())
    other.publish(JOBS)
    assert other.take(other.broker.feed(feed.subscription.name))[0].id != lease.id
