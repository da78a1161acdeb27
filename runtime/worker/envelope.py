"""Reads the push body that the broker really sends at a tenth of the cost of reading any JSON strictly."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from runtime.contract.envelope import MESSAGE_ID_MAX, PushEnvelope, parse_push

_NO_ATTRIBUTES: Final = MappingProxyType[str, str]({})


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    data: str | None = None
    attributes: dict[str, str] | None = None
    messageId: str | None = None  # noqa: N815 - as it is sent
    message_id: str | None = None
    publishTime: str | None = None  # noqa: N815
    publish_time: str | None = None
    orderingKey: str | None = None  # noqa: N815
    ordering_key: str | None = None


class _Push(Struct, forbid_unknown_fields=True, gc=False):
    message: _Message
    subscription: str
    deliveryAttempt: int | None = None  # noqa: N815 - as it is sent
    delivery_attempt: int | None = None


_decode: Final = msgspec.json.Decoder(_Push).decode


def read_push(body: bytes) -> PushEnvelope:
    """The same as `parse_push`, which reads whatever is not plainly in order.

    Raises:
        EnvelopeError: see parse_push.
    """
    return _plain(body) or parse_push(body)


def _plain(body: bytes) -> PushEnvelope | None:
    """The envelope of a body of known fields, each once; None where it is not surely that."""
    if b"\\" in body:
        return None
    try:
        push = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    message = push.message
    message_id = message.messageId or message.message_id
    attempt = push.deliveryAttempt if push.deliveryAttempt is not None else push.delivery_attempt
    if (
        not message_id
        or message_id.isspace()
        or len(message_id) > MESSAGE_ID_MAX
        or message.message_id not in (None, message_id)
        or (attempt is not None and (attempt < 0 or push.delivery_attempt not in (None, attempt)))
        or message.publishTime is None
        or message.publish_time not in (None, message.publishTime)
        or message.ordering_key not in (None, message.orderingKey)
        # The decoder takes the last of two fields of one name. With no escapes, every quote is the end of a text: there
        # are more of them than of what was read where something was there twice.
        or body.count(b'"') != 2 * _texts(push, message)
    ):
        return None
    attributes = message.attributes
    return PushEnvelope(
        message_id,
        message.publishTime,
        _NO_ATTRIBUTES if attributes is None else MappingProxyType(attributes),
        message.data or "",
        push.subscription,
        attempt,
        message.orderingKey or "",
    )


def _texts(push: _Push, message: _Message) -> int:
    """How many names and values a body had of which this was read, if each was there once and none was null."""
    texts = (
        (message.data is not None)
        + (message.messageId is not None)
        + (message.message_id is not None)
        + (message.publishTime is not None)
        + (message.publish_time is not None)
        + (message.orderingKey is not None)
        + (message.ordering_key is not None)
    )
    attributes = 0 if message.attributes is None else 1 + 2 * len(message.attributes)
    attempts = (push.deliveryAttempt is not None) + (push.delivery_attempt is not None)
    return 3 + attempts + attributes + 2 * texts  # `message`, `subscription` and its value
