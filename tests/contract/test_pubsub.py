"""One suite for Google's Pub/Sub emulator and the sandbox's service.

Left out is what the emulator is known to do differently from the real service: tokens, `deliveryAttempt` on push,
`orderingKey` on push, status 202, retry policies, filters, order of pulled messages after a rejection, size limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web
from google.api_core import exceptions
from google.pubsub_v1 import types

from tests.support.brokers_under_contract import ContractBroker, emulator, sandbox
from tests.support.endpoint import Call, Endpoint

Open = Callable[[Endpoint], AbstractAsyncContextManager[ContractBroker]]


@pytest.fixture(params=["sandbox", pytest.param("emulator", marks=pytest.mark.emulator)])
def open_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Starts what is needed; not in a loop, which starting a process would block."""
    if request.param == "sandbox":
        return lambda endpoint: sandbox(tmp_path, endpoint)
    address, project = request.getfixturevalue("pubsub_emulator"), request.getfixturevalue("project")
    return lambda endpoint: emulator(address, project, endpoint)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
async def broker(open_broker: Open, endpoint: Endpoint) -> AsyncIterator[ContractBroker]:
    async with open_broker(endpoint) as opened:
        yield opened


async def publish(broker: ContractBroker, topic: str, *data: str, key: str = "") -> list[str]:
    messages = [types.PubsubMessage(data=each.encode(), attributes={"of": each}, ordering_key=key) for each in data]
    response = await broker.publisher.publish(topic=topic, messages=messages, **broker.call)
    return list(response.message_ids)


async def pull(broker: ContractBroker, subscription: str, count: int) -> list[types.ReceivedMessage]:
    """Pulls until so many messages have come."""
    received: list[types.ReceivedMessage] = []
    async with asyncio.timeout(60):
        while len(received) < count:
            response = await broker.subscriber.pull(subscription=subscription, max_messages=count, **broker.call)
            received += response.received_messages
    return received


async def reject(broker: ContractBroker, subscription: str, received: types.ReceivedMessage) -> None:
    await broker.subscriber.modify_ack_deadline(
        subscription=subscription, ack_ids=[received.ack_id], ack_deadline_seconds=0, **broker.call
    )


async def test_a_message_is_pulled_as_it_was_published(broker: ContractBroker) -> None:
    topic = await broker.create_topic("jobs")
    subscription = await broker.create_subscription("one", topic)
    ids = await publish(broker, topic, "a", "b")
    received = sorted(await pull(broker, subscription, 2), key=lambda each: bytes(each.message.data))
    assert [each.message.message_id for each in received] == ids
    assert [dict(each.message.attributes) for each in received] == [{"of": "a"}, {"of": "b"}]
    assert int(ids[0]) < int(ids[1])
    assert received[0].delivery_attempt == 0


async def test_an_acknowledged_message_does_not_come_back_and_a_rejected_one_does_at_once(
    broker: ContractBroker,
) -> None:
    topic = await broker.create_topic("jobs")
    subscription = await broker.create_subscription("one", topic)
    await publish(broker, topic, "a", "b")
    for received in await pull(broker, subscription, 2):
        if received.message.data == b"a":
            await broker.subscriber.acknowledge(subscription=subscription, ack_ids=[received.ack_id], **broker.call)
        else:
            await reject(broker, subscription, received)
    [again] = await pull(broker, subscription, 1)
    assert again.message.data == b"b"


async def test_every_subscription_gets_its_own_copy_of_what_is_published_after_it_was_made(
    broker: ContractBroker,
) -> None:
    topic = await broker.create_topic("jobs")
    first = await broker.create_subscription("first", topic)
    await publish(broker, topic, "before")
    second = await broker.create_subscription("second", topic)
    await publish(broker, topic, "after")
    assert {each.message.data for each in await pull(broker, first, 2)} == {b"before", b"after"}
    assert [each.message.data for each in await pull(broker, second, 1)] == [b"after"]


async def test_a_message_rejected_five_times_goes_to_the_dead_letter_topic_with_where_it_comes_from(
    broker: ContractBroker,
) -> None:
    topic, dead = await broker.create_topic("jobs"), await broker.create_topic("dead")
    letters = await broker.create_subscription("letters", dead)
    subscription = await broker.create_subscription("one", topic, dead_letters=dead)
    await publish(broker, topic, "poison")
    attempts = []
    for _ in range(5):
        [received] = await pull(broker, subscription, 1)
        attempts.append(received.delivery_attempt)
        await reject(broker, subscription, received)
    assert attempts == [1, 2, 3, 4, 5]
    # The emulator forwards only when somebody asks for the message again.
    asking = asyncio.create_task(pull(broker, subscription, 1))
    [letter] = await pull(broker, letters, 1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled(), "the source subscription has nothing left"
    assert letter.message.data == b"poison"
    attributes = dict(letter.message.attributes)
    assert attributes.pop("CloudPubSubDeadLetterSourceTopicPublishTime").startswith("20")
    _, project, _, name = subscription.split("/")
    assert attributes == {
        "of": "poison",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": name,
        "CloudPubSubDeadLetterSourceSubscriptionProject": project,
    }


async def test_a_push_is_wrapped_in_both_spellings(broker: ContractBroker, endpoint: Endpoint) -> None:
    topic = await broker.create_topic("jobs")
    subscription = await broker.create_subscription("pushed", topic, push=True)
    [message_id] = await publish(broker, topic, "hi")
    [call] = await endpoint.received(1)
    message = call.json["message"]
    assert call.json["subscription"] == subscription
    assert message["publishTime"] == message["publish_time"]
    assert {name: message[name] for name in ("data", "attributes", "messageId", "message_id")} == {
        "data": "aGk=",
        "attributes": {"of": "hi"},
        "messageId": message_id,
        "message_id": message_id,
    }


async def test_a_push_is_repeated_until_it_is_acknowledged(broker: ContractBroker, endpoint: Endpoint) -> None:
    answers = iter([500, 429, 404, 204])
    endpoint.answer = lambda _: web.Response(status=next(answers, 204))
    topic = await broker.create_topic("jobs")
    await broker.create_subscription("pushed", topic, push=True)
    await publish(broker, topic, "a")
    calls = await endpoint.received(4)
    assert len({call.json["message"]["messageId"] for call in calls}) == 1
    await publish(broker, topic, "b")
    calls = await endpoint.received(5)
    assert [call.json["message"]["attributes"]["of"] for call in calls] == ["a", "a", "a", "a", "b"]


async def test_pushed_messages_of_one_key_keep_their_order_through_a_failure(
    broker: ContractBroker, endpoint: Endpoint
) -> None:
    def third_fails_once(_: Call) -> web.StreamResponse:
        return web.Response(status=500 if len(endpoint.calls) == 3 else 204)

    endpoint.answer = third_fails_once
    topic = await broker.create_topic("jobs")
    await broker.create_subscription("pushed", topic, push=True, ordered=True)
    await publish(broker, topic, "0", "1", "2", "3", "4", key="k")
    calls = await endpoint.received(6)
    assert [call.json["message"]["attributes"]["of"] for call in calls] == ["0", "1", "2", "2", "3", "4"]


async def test_what_does_not_exist_is_not_found(broker: ContractBroker) -> None:
    with pytest.raises(exceptions.NotFound):
        await publish(broker, broker.topic_name("none"), "x")
    with pytest.raises(exceptions.NotFound):
        await pull(broker, broker.subscription_name("none"), 1)


async def test_malformed_calls_are_invalid_arguments(broker: ContractBroker) -> None:
    topic = await broker.create_topic("jobs")
    subscription = await broker.create_subscription("one", topic)
    call = broker.call
    with pytest.raises(exceptions.InvalidArgument):
        await broker.publisher.publish(topic=topic, messages=[], **call)
    with pytest.raises(exceptions.InvalidArgument):
        await broker.publisher.publish(topic=topic, messages=[types.PubsubMessage()], **call)
    with pytest.raises(exceptions.InvalidArgument):
        await broker.subscriber.pull(subscription=subscription, max_messages=0, **call)
    with pytest.raises(exceptions.InvalidArgument):
        await broker.subscriber.acknowledge(subscription=subscription, ack_ids=["made-up"], **call)
