"""Publishing to Google Cloud Pub/Sub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import grpc.aio
from grpc import StatusCode

from runtime.adapters.clock import SystemClock
from runtime.adapters.google_messages import message_class
from runtime.adapters.grpc_calls import CallFailed, ChannelClosed, Method, routing
from runtime.contract.limits import MESSAGE_DATA_BYTES
from runtime.contract.names import SCOPE_PUBSUB
from runtime.ports.clock import Clock
from runtime.ports.publisher import PublishRefused, PublishUnavailable
from runtime.ports.tokens import Tokens, TokenUnavailable

_Request: Final = message_class("google.pubsub.v1.PublishRequest")
_Response: Final = message_class("google.pubsub.v1.PublishResponse")

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
        self._clock = clock or SystemClock()
        self._publish = Method(channel, tokens, SCOPE_PUBSUB, "/google.pubsub.v1.Publisher/Publish", _Response)

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str], *, timeout: float = 10) -> str:
        """See Publisher."""
        if len(data) > MESSAGE_DATA_BYTES:
            raise PublishRefused(f"message for {topic} has {len(data)} bytes, the limit is {MESSAGE_DATA_BYTES}")
        request = _Request(topic=topic)
        request.messages.add(data=data, attributes=attributes)
        deadline = self._clock.monotonic() + timeout
        try:
            async with self._clock.timeout(timeout):
                response = await self._publish(
                    request, (routing("topic", topic),), lambda: deadline - self._clock.monotonic()
                )
        except TimeoutError:
            raise PublishUnavailable(f"{topic}: no answer within {timeout} s") from None
        except TokenUnavailable as error:
            raise PublishUnavailable(f"{topic}: {error}") from error
        except ChannelClosed:
            raise PublishUnavailable(f"{topic}: the channel is closed") from None
        except CallFailed as error:
            text = f"{topic}: {error.text}"
            raise PublishRefused(text) if error.status in _REFUSED else PublishUnavailable(text) from error
        if len(response.message_ids) != 1:
            raise PublishUnavailable(f"{topic}: the answer names {len(response.message_ids)} messages, not one")
        return str(response.message_ids[0])

    async def close(self) -> None:
        """See Publisher."""
        await self._channel.close(grace=None)
