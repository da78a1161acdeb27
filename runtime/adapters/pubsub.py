"""Publishing to Google Cloud Pub/Sub."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import grpc
from google.api_core.exceptions import GoogleAPICallError
from google.pubsub_v1 import PublisherAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.types import PublishRequest, PubsubMessage
from grpc import StatusCode

from runtime.adapters.clock import SystemClock
from runtime.adapters.grpc_calls import ChannelClosed, answered, described, status_of
from runtime.contract.limits import MESSAGE_DATA_BYTES
from runtime.contract.names import SCOPE_PUBSUB
from runtime.ports.clock import Clock
from runtime.ports.publisher import PublishError, PublishRefused, PublishUnavailable
from runtime.ports.tokens import Tokens, TokenUnavailable

_REFUSED: Final = frozenset(
    {
        StatusCode.NOT_FOUND,
        StatusCode.PERMISSION_DENIED,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.OUT_OF_RANGE,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.UNIMPLEMENTED,
    }
)
"""Said by the service about the message or the topic. UNAUTHENTICATED is not among them: a newer token may do."""


class PubSubPublisher:
    """Publishes one message a call, without retries and without batching.

    Args:
        channel: to the service, of the running event loop; the publisher takes it over, and close() closes it.
        tokens: who publishes; the token goes with each call, so a channel needs no credentials of its own.
        clock: for timeouts; None means the system's.
    """

    def __init__(self, channel: grpc.aio.Channel, tokens: Tokens, clock: Clock | None = None) -> None:
        self._channel = channel
        self._tokens = tokens
        self._clock = clock or SystemClock()
        self._transport = PublisherGrpcAsyncIOTransport(channel=channel)
        self._client: PublisherAsyncClient | None = None

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str], *, timeout: float = 10) -> str:
        """See Publisher."""
        if len(data) > MESSAGE_DATA_BYTES:
            raise PublishRefused(f"message for {topic} has {len(data)} bytes, the limit is {MESSAGE_DATA_BYTES}")
        request = PublishRequest(topic=topic, messages=[PubsubMessage(data=data, attributes=dict(attributes))])
        deadline = self._clock.monotonic() + timeout
        try:
            async with self._clock.timeout(timeout):
                token = await self._tokens.access_token(SCOPE_PUBSUB)
                client = await self._connected()
                call = client.publish(
                    request=request,
                    retry=None,
                    timeout=max(0.0, deadline - self._clock.monotonic()),
                    metadata=[("authorization", f"Bearer {token}")],
                )
                response = await answered(call)
        except TimeoutError:
            raise PublishUnavailable(f"{topic}: no answer within {timeout} s") from None
        except TokenUnavailable as error:
            raise PublishUnavailable(f"{topic}: {error}") from error
        except ChannelClosed:
            raise PublishUnavailable(f"{topic}: the channel is closed") from None
        except GoogleAPICallError as error:
            raise _publish_error(topic, error) from error
        if len(response.message_ids) != 1:
            raise PublishUnavailable(f"{topic}: the answer names {len(response.message_ids)} messages, not one")
        return str(response.message_ids[0])

    async def close(self) -> None:
        """See Publisher."""
        await self._channel.close(grace=None)

    async def _connected(self) -> PublisherAsyncClient:
        if self._client is None:
            # It looks for certificates on disk.
            self._client = await asyncio.to_thread(PublisherAsyncClient, transport=self._transport)
        return self._client


def _publish_error(topic: str, error: GoogleAPICallError) -> PublishError:
    text = f"{topic}: {described(error)}"
    return PublishRefused(text) if status_of(error) in _REFUSED else PublishUnavailable(text)
