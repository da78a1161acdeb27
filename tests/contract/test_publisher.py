"""The publisher against Google's Pub/Sub emulator, and against servers that refuse, hang or are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport
from google.pubsub_v1.types import PublishRequest, PublishResponse
from grpc import StatusCode

from runtime.adapters.pubsub import PubSubPublisher
from runtime.contract.limits import MESSAGE_DATA_BYTES
from runtime.contract.names import SCOPE_PUBSUB
from runtime.ports.publisher import PublishRefused, PublishUnavailable
from runtime.ports.tokens import TokenUnavailable
from tests.support.local_host import deaf_port

TOPIC: Final = "projects/p/topics/t"
CALL: Final[dict[str, Any]] = {"retry": None, "timeout": 30}


class FixedTokens:
    """Gives one token for the one scope; None: cannot give any."""

    def __init__(self, token: str | None = "the-token") -> None:
        self.token = token

    async def access_token(self, scope: str) -> str:
        assert scope == SCOPE_PUBSUB
        if self.token is None:
            raise TokenUnavailable("no token today")
        return self.token

    async def id_token(self, audience: str) -> str:
        raise AssertionError(audience)


class ScriptedPubSub:
    """Answers every publication with what `answer` says; None is silence."""

    def __init__(self) -> None:
        self.answer: StatusCode | PublishResponse | None = PublishResponse(message_ids=["7"])
        self.arrived = asyncio.Event()
        self.requests: list[PublishRequest] = []
        self.metadata: dict[str, str | bytes] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Gives `host:port`."""
        handler = grpc.unary_unary_rpc_method_handler(
            self._publish, PublishRequest.deserialize, PublishResponse.serialize
        )
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        service = "google.pubsub.v1.Publisher"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Publish": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(grace=None)

    async def _publish(self, request: PublishRequest, context: Any) -> PublishResponse:
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())
        self.arrived.set()
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, StatusCode):
            await context.abort(self.answer, "refused by the test")
        assert isinstance(self.answer, PublishResponse)
        return self.answer


@asynccontextmanager
async def publisher_to(address: str, tokens: FixedTokens | None = None) -> AsyncIterator[PubSubPublisher]:
    publisher = PubSubPublisher(grpc.aio.insecure_channel(address), tokens or FixedTokens())
    try:
        yield publisher
    finally:
        await publisher.close()


@pytest.fixture
async def scripted() -> AsyncIterator[tuple[PubSubPublisher, ScriptedPubSub]]:
    server = ScriptedPubSub()
    async with server.serving() as address, publisher_to(address) as publisher:
        yield publisher, server


Scripted = tuple[PubSubPublisher, ScriptedPubSub]


@pytest.mark.emulator
async def test_a_published_message_arrives_as_it_was_sent(pubsub_emulator: str, project: str) -> None:
    topic, subscription = f"projects/{project}/topics/jobs", f"projects/{project}/subscriptions/jobs"
    async with grpc.aio.insecure_channel(pubsub_emulator) as channel, publisher_to(pubsub_emulator) as publisher:
        admin = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel))
        subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))
        await admin.create_topic(name=topic, **CALL)
        await subscriber.create_subscription(name=subscription, topic=topic, **CALL)
        data, attributes = bytes(range(256)), {"run_id": "r", "job_id": "r.1", "größe": "ja"}
        message_id = await publisher.publish(topic, data, attributes)
        second = await publisher.publish(topic, b"{}", {})
        response = await subscriber.pull(subscription=subscription, max_messages=10, **CALL)
    received = {row.message.message_id: row.message for row in response.received_messages}
    assert (received[message_id].data, dict(received[message_id].attributes)) == (data, attributes)
    assert second != message_id


@pytest.mark.emulator
async def test_a_missing_topic_is_a_refusal(pubsub_emulator: str, project: str) -> None:
    async with publisher_to(pubsub_emulator) as publisher:
        with pytest.raises(PublishRefused, match="NOT_FOUND"):
            await publisher.publish(f"projects/{project}/topics/missing", b"x", {})
        with pytest.raises(PublishRefused, match="INVALID_ARGUMENT"):
            await publisher.publish("not-a-topic", b"x", {})


async def test_the_token_goes_with_each_call_and_a_new_one_is_taken_at_once() -> None:
    server, tokens = ScriptedPubSub(), FixedTokens("first")
    async with server.serving() as address, publisher_to(address, tokens) as publisher:
        assert await publisher.publish(TOPIC, b"x", {}) == "7"
        assert server.metadata["authorization"] == "Bearer first"
        tokens.token = "second"
        await publisher.publish(TOPIC, b"x", {})
        assert server.metadata["authorization"] == "Bearer second"
    assert server.metadata["x-goog-request-params"] == "topic=projects/p/topics/t"


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.NOT_FOUND,
        StatusCode.PERMISSION_DENIED,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.OUT_OF_RANGE,
        StatusCode.UNIMPLEMENTED,
    ],
)
async def test_what_the_service_says_of_message_or_topic_is_a_refusal(scripted: Scripted, code: StatusCode) -> None:
    publisher, server = scripted
    server.answer = code
    with pytest.raises(PublishRefused, match=f"{TOPIC}: {code.name}: refused by the test"):
        await publisher.publish(TOPIC, b"x", {})


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
        StatusCode.ABORTED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.CANCELLED,
        StatusCode.UNAUTHENTICATED,
    ],
)
async def test_everything_else_is_unavailable_and_is_tried_once(scripted: Scripted, code: StatusCode) -> None:
    publisher, server = scripted
    server.answer = code
    with pytest.raises(PublishUnavailable, match=code.name):
        await publisher.publish(TOPIC, b"x", {})
    assert len(server.requests) == 1


async def test_an_answer_without_the_messages_id_is_unavailable(scripted: Scripted) -> None:
    publisher, server = scripted
    server.answer = PublishResponse()
    with pytest.raises(PublishUnavailable, match="names 0 messages"):
        await publisher.publish(TOPIC, b"x", {})


async def test_a_message_over_the_limit_is_refused_without_a_call(scripted: Scripted) -> None:
    publisher, server = scripted
    with pytest.raises(PublishRefused, match="the limit is"):
        await publisher.publish(TOPIC, b"x" * (MESSAGE_DATA_BYTES + 1), {})
    assert server.requests == []
    assert await publisher.publish(TOPIC, b"x" * MESSAGE_DATA_BYTES, {}, timeout=60) == "7"


async def test_a_server_that_says_nothing_is_left_after_the_callers_time(scripted: Scripted) -> None:
    publisher, server = scripted
    server.answer = None
    with pytest.raises(PublishUnavailable):
        await publisher.publish(TOPIC, b"x", {}, timeout=0.2)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with deaf_port() as port:
        async with publisher_to(f"127.0.0.1:{port}") as publisher:
            with pytest.raises(PublishUnavailable):
                await publisher.publish(TOPIC, b"x", {}, timeout=5)


async def test_a_server_that_stops_between_two_messages_is_unavailable() -> None:
    server = ScriptedPubSub()
    async with server.serving() as address:
        publisher = PubSubPublisher(grpc.aio.insecure_channel(address), FixedTokens())
        await publisher.publish(TOPIC, b"x", {})
    with pytest.raises(PublishUnavailable):
        await publisher.publish(TOPIC, b"x", {}, timeout=5)
    await publisher.close()


async def test_without_a_token_nothing_is_sent_and_the_publisher_is_unavailable() -> None:
    server = ScriptedPubSub()
    async with server.serving() as address, publisher_to(address, FixedTokens(None)) as publisher:
        with pytest.raises(PublishUnavailable, match="no token today"):
            await publisher.publish(TOPIC, b"x", {})
    assert server.requests == []


async def test_closing_ends_the_calls_under_way_with_an_error_and_cancels_nobody(scripted: Scripted) -> None:
    publisher, server = scripted
    server.answer = None
    publication = asyncio.create_task(publisher.publish(TOPIC, b"x", {}))
    await server.arrived.wait()
    await publisher.close()
    with pytest.raises(PublishUnavailable):
        await publication
    with pytest.raises(PublishUnavailable):
        await publisher.publish(TOPIC, b"x", {})


async def test_a_cancelled_caller_is_cancelled(scripted: Scripted) -> None:
    publisher, server = scripted
    server.answer = None
    publication = asyncio.create_task(publisher.publish(TOPIC, b"x", {}))
    await server.arrived.wait()
    publication.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publication
