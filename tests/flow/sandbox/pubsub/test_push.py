"""Messages published with Google's client arrive at a real push endpoint."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from runtime.adapters.clock import ManualClock
from sandbox.identity.server import IdentityService
from sandbox.network import Address, Hosts
from sandbox.pubsub.server import PubSub
from sandbox.pubsub.state import Counts
from sandbox.world import SUBSCRIPTION, World
from tests.support.endpoint import Endpoint
from tests.support.pubsub_clients import JOBS, Clients
from tests.support.worlds import PUSH, WORKER_URL, agent_may_mint, push_config, subscription


async def test_a_published_message_is_pushed_with_a_signed_token_and_acknowledged(
    pushed: str, service: PubSub, identity: IdentityService, clients: Clients, endpoint: Endpoint
) -> None:
    [message_id] = await clients.publish("hello", attributes={"run_id": "r1"})
    await service.wait_idle()
    [call] = endpoint.calls
    assert call.json == {
        "message": {
            "data": "aGVsbG8=",
            "attributes": {"run_id": "r1"},
            "messageId": message_id,
            "message_id": message_id,
            "publishTime": "2026-01-01T00:00:00Z",
            "publish_time": "2026-01-01T00:00:00Z",
        },
        "subscription": pushed,
    }
    assert call.headers["Content-Type"] == "application/json"
    assert identity.verify_id_token(call.headers["Authorization"].removeprefix("Bearer "), {WORKER_URL}) == PUSH
    assert service.counts()[pushed] == Counts(0, 0, 1, 0, 0)


async def test_a_refused_push_comes_again_after_the_retry_policys_delay(
    pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint, clock: ManualClock
) -> None:
    endpoint.answer = lambda _: web.Response(status=503 if len(endpoint.calls) == 1 else 204)
    await clients.publish("x")
    await endpoint.received(1)
    await answered(service, pushed)
    await clock.advance(9)
    assert len(endpoint.calls) == 1
    await clock.advance(1)
    await service.wait_idle()
    assert len(endpoint.calls) == 2


async def answered(service: PubSub, name: str) -> None:
    """Waits until nothing of a subscription is in flight; that needs no time on the clock, only the sockets."""
    async with asyncio.timeout(30):
        while service.counts()[name].in_flight:
            service.broker.changed.clear()
            await service.broker.changed.wait()


async def test_a_redirect_is_not_followed_and_is_a_refusal(
    pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint
) -> None:
    """BR-11."""
    endpoint.answer = lambda _: web.Response(status=307, headers={"Location": f"{WORKER_URL}/other"})
    await clients.publish("x")
    await endpoint.received(1)
    await answered(service, pushed)
    assert [call.path for call in endpoint.calls] == ["/"]
    assert service.counts()[pushed].pending == 1


async def test_status_102_acknowledges_although_http_calls_it_provisional(
    world: World, pushed: str, service: PubSub, clients: Clients, hosts: Hosts
) -> None:
    """BR-11."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        hosts.table = {"raw.run.app": Address(port=server.sockets[0].getsockname()[1])}
        subscription(world, "pushed", JOBS, pushConfig=push_config("https://raw.run.app"))
        await clients.publish("x")
        await service.wait_idle()
    assert service.counts()[pushed].acknowledged == 1


async def test_an_endpoint_that_does_not_answer_is_hung_up_on_at_the_ack_deadline(
    pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint, clock: ManualClock
) -> None:
    endpoint.hold()
    await clients.publish("x")
    await endpoint.received(1)
    await clock.advance(60)
    assert service.counts()[pushed] == Counts(1, 0, 0, 0, 0)
    endpoint.release()
    await clock.advance(10)
    await service.wait_idle()
    assert len(endpoint.calls) == 2


async def test_one_subscriptions_stuck_endpoint_does_not_hold_up_another(
    world: World, pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint, hosts: Hosts
) -> None:
    async with Endpoint() as other:
        hosts.table = {"other.run.app": other.address, **hosts.table}
        name = subscription(world, "other", JOBS, pushConfig=push_config("https://other.run.app"))
        endpoint.hold()
        await clients.publish(*("x" for _ in range(20)))
        await service.wait_idle(name)
        assert len(other.calls) == 20
        assert service.counts()[pushed].acknowledged == 0


async def test_many_messages_reach_a_fast_endpoint_once_each(
    pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint
) -> None:
    ids = [message_id for _ in range(5) for message_id in await clients.publish(*("x" for _ in range(100)))]
    await service.wait_idle()
    assert sorted(call.json["message"]["messageId"] for call in endpoint.calls) == sorted(ids)


async def test_a_push_without_the_agents_grant_waits_for_it(
    world: World, pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint, clock: ManualClock
) -> None:
    world.remove("gcp:serviceaccount/iAMMember:IAMMember", "agent-mints")
    await clients.publish("x")
    await clock.advance(120)
    assert endpoint.calls == []
    agent_may_mint(world)
    await clock.advance(1)
    await service.wait_idle()
    assert len(endpoint.calls) == 1


async def test_a_subscription_that_is_declared_later_is_pushed_and_one_that_is_removed_is_not(
    world: World, service: PubSub, clients: Clients, endpoint: Endpoint, clock: ManualClock
) -> None:
    name = subscription(world, "late", JOBS, pushConfig=push_config())
    await clients.publish("a")
    await service.wait_idle(name)
    world.remove(SUBSCRIPTION, "late")
    await clients.publish("b")
    await clock.advance(2)
    assert [call.json["message"]["data"] for call in endpoint.calls] == ["YQ=="]
    assert service.counts() == {}


async def test_waiting_for_rest_ends_with_an_error_where_there_is_none(
    pushed: str, service: PubSub, clients: Clients, endpoint: Endpoint, clock: ManualClock
) -> None:
    endpoint.hold()
    await clients.publish("x")
    waiting = asyncio.create_task(service.wait_idle(timeout=30))
    await endpoint.received(1)
    await clock.advance(30)
    with pytest.raises(TimeoutError):
        await waiting
