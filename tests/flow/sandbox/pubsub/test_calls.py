"""Every call of Google's clients: what it does, who may make it, what it may be asked to do wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.pubsub_v1 import types

from runtime.adapters.clock import ManualClock
from runtime.contract.names import SCOPE_DATASTORE
from sandbox.identity.server import IdentityService
from sandbox.pubsub.faults import Effect, Fault, Step
from sandbox.pubsub.server import PubSub
from sandbox.pubsub.state import Counts
from sandbox.world import World
from tests.support.pubsub_clients import JOBS, PULLED, Clients
from tests.support.worlds import (
    API,
    PROJECT_GRANT,
    PUSH,
    WORKER_URL,
    declare,
    may_consume,
    subscription,
    topic,
)


async def test_pulled_messages_are_acknowledged_extended_rejected_and_come_back(
    pulled: str, service: PubSub, clients: Clients, clock: ManualClock
) -> None:
    await clients.publish("a", "b", "c", attributes={"k": "v"}, ordering_key="o")
    a, b, c = await clients.pull()
    assert (a.message.data, dict(a.message.attributes), a.message.ordering_key) == (b"a", {"k": "v"}, "o")
    assert a.delivery_attempt == 0, "told only with a dead-letter policy"
    await clients.acknowledge(a)
    await clients.modify(b, 0)
    await clients.modify(c, 30)
    [again] = await clients.pull()
    assert again.message.message_id == b.message.message_id
    await clients.acknowledge(again)
    await clock.advance(29)
    assert service.counts()[pulled].in_flight == 1
    await clock.advance(1)
    [late] = await clients.pull()
    assert late.message.message_id == c.message.message_id
    await clients.acknowledge(late, c)
    assert service.counts()[pulled] == Counts(0, 0, 3, 0, 0)


async def test_a_pull_waits_for_a_message_and_answers_empty_in_the_end(
    pulled: str, clients: Clients, clock: ManualClock
) -> None:
    waiting = asyncio.create_task(clients.pull())
    await clients.publish("x")
    assert len(await waiting) == 1
    empty = asyncio.create_task(clients.pull())
    while not empty.done():
        await clock.advance(5)
    assert [each.message.data for each in await empty] in ([], [b"x"])


async def test_the_delivery_attempt_is_told_on_pull_with_a_dead_letter_policy(
    world: World, pulled: str, clients: Clients
) -> None:
    letters = {"deadLetterTopic": "projects/p-test/topics/dead", "maxDeliveryAttempts": 5}
    subscription(world, "pulled", JOBS, deadLetterPolicy=letters)
    await clients.publish("x")
    for attempt in (1, 2, 3):
        [received] = await clients.pull()
        assert received.delivery_attempt == attempt
        await clients.modify(received, 0)


async def test_a_push_subscription_cannot_be_pulled(world: World, pushed: str, clients: Clients) -> None:
    may_consume(world, "pushed")
    with pytest.raises(exceptions.FailedPrecondition, match="pushes or exports"):
        await clients.subscriber.pull(subscription=pushed, max_messages=1, metadata=clients.metadata, retry=None)


async def test_topics_and_subscriptions_are_shown_as_declared(
    world: World, pushed: str, pulled: str, clients: Clients
) -> None:
    viewer = {"role": "roles/pubsub.viewer", "member": f"serviceAccount:{API}", "project": world.project}
    declare(world, PROJECT_GRANT, "viewer", **viewer)
    call: dict[str, Any] = {"metadata": clients.metadata, "retry": None}
    assert (await clients.publisher.get_topic(topic=JOBS, **call)).name == JOBS
    topics = await clients.publisher.list_topics(project="projects/p-test", **call)
    assert [each.name async for each in topics] == [JOBS]
    shown = await clients.subscriber.get_subscription(subscription=pushed, **call)
    assert (shown.name, shown.topic, shown.ack_deadline_seconds) == (pushed, JOBS, 60)
    assert shown.push_config.push_endpoint == WORKER_URL
    assert shown.push_config.oidc_token.service_account_email == PUSH
    assert types.Subscription.pb(shown).retry_policy.minimum_backoff.seconds == 10
    listed = await clients.subscriber.list_subscriptions(project="projects/p-test", **call)
    assert [each.name async for each in listed] == [pulled, pushed]


async def stream(clients: Clients) -> None:
    """Streams from a subscription to the end."""
    requests = _each([types.StreamingPullRequest(subscription=PULLED, stream_ack_deadline_seconds=10)])
    async for _ in await clients.subscriber.streaming_pull(requests=requests, metadata=clients.metadata, retry=None):
        pytest.fail("nothing may be streamed")


UNIMPLEMENTED: dict[str, Callable[[Clients], Awaitable[object]]] = {
    "create topic": lambda our: our.publisher.create_topic(name=f"{JOBS}2", metadata=our.metadata, retry=None),
    "delete topic": lambda our: our.publisher.delete_topic(topic=JOBS, metadata=our.metadata, retry=None),
    "create subscription": lambda our: our.subscriber.create_subscription(
        name=PULLED, topic=JOBS, metadata=our.metadata, retry=None
    ),
    "seek": lambda our: our.subscriber.seek(request={"subscription": PULLED}, metadata=our.metadata, retry=None),
    "streaming pull": stream,
}


@pytest.mark.parametrize("call", UNIMPLEMENTED.values(), ids=UNIMPLEMENTED.keys())
async def test_what_comes_from_the_program_or_later_is_unimplemented_and_says_so(
    call: Callable[[Clients], Awaitable[object]], pulled: str, clients: Clients
) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="is not available in the sandbox"):
        await call(clients)


async def _each(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def test_a_call_without_a_valid_token_is_unauthenticated(
    pulled: str, clients: Clients, identity: IdentityService, clock: ManualClock
) -> None:
    good = clients.metadata[0][1]
    wrong = [
        [],
        [("authorization", "Bearer made-up")],
        [("authorization", good.replace("Bearer ", "Basic "))],
        [("authorization", good), ("authorization", good)],
        [("authorization", f"Bearer {identity.access_token(API, SCOPE_DATASTORE)}")],
    ]
    for metadata in wrong:
        clients.metadata = metadata
        with pytest.raises(exceptions.Unauthenticated):
            await clients.publish("x")
    clients.metadata = [("authorization", good)]
    await clock.advance(3600)
    with pytest.raises(exceptions.Unauthenticated, match="over"):
        await clients.publish("x")


async def test_a_caller_without_the_grant_is_denied_and_the_grant_is_named(world: World, clients: Clients) -> None:
    subscription(world, "pulled", JOBS)
    topic(world, "other")
    member = f"serviceAccount:{API}"
    wanted = f"missing grant: roles/pubsub.subscriber on subscription pulled for {member}"
    with pytest.raises(exceptions.PermissionDenied, match=wanted):
        await clients.pull()
    request = types.PublishRequest(topic="projects/p-test/topics/other", messages=[types.PubsubMessage(data=b"x")])
    wanted = f"missing grant: roles/pubsub.publisher on topic other for {member}"
    with pytest.raises(exceptions.PermissionDenied, match=wanted):
        await clients.publisher.publish(request, metadata=clients.metadata, retry=None)
    with pytest.raises(exceptions.PermissionDenied, match=r"roles/pubsub\.viewer on topic jobs"):
        await clients.publisher.get_topic(topic=JOBS, metadata=clients.metadata, retry=None)


async def test_what_is_not_declared_is_not_found(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound, match=PULLED):
        await clients.pull()
    with pytest.raises(exceptions.NotFound, match="topics/none"):
        await clients.publisher.get_topic(topic="projects/p-test/topics/none", metadata=clients.metadata, retry=None)


async def test_a_message_above_the_limit_is_refused_by_its_size(clients: Clients, pulled: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="the maximum is 10000000"):
        await clients.publish("x" * 10_000_001)
    await clients.publish("x" * 10_000_000)
    [received] = await clients.pull()
    assert len(received.message.data) == 10_000_000


@pytest.mark.parametrize(
    ("effect", "answered", "stored"),
    [(Effect.ERROR, False, 0), (Effect.DROP_RESPONSE, False, 1), (Effect.DUPLICATE, True, 2)],
)
async def test_ordered_publish_faults_happen_once(
    pulled: str, service: PubSub, clients: Clients, effect: Effect, answered: bool, stored: int
) -> None:
    service.faults.order(Fault(step=Step.PUBLISH, effect=effect, name="jobs"))
    if answered:
        await clients.publish("x")
    else:
        with pytest.raises(exceptions.ServiceUnavailable, match="as ordered"):
            await clients.publish("x")
    assert service.counts()[pulled].pending == stored
    await clients.publish("x")
    assert service.counts()[pulled].pending == stored + 1


async def test_an_ordered_publish_error_has_the_ordered_code_and_a_delay_waits_on_the_clock(
    pulled: str, service: PubSub, clients: Clients, clock: ManualClock
) -> None:
    service.faults.order(Fault(step=Step.PUBLISH, effect=Effect.ERROR, status=8))
    with pytest.raises(exceptions.ResourceExhausted):
        await clients.publish("x")
    service.faults.order(Fault(step=Step.PUBLISH, effect=Effect.DELAY, seconds=30))
    call = asyncio.create_task(clients.publish("x"))
    while not call.done():
        await clock.advance(5)
    assert clock.monotonic() >= 30
    assert len(await call) == 1
