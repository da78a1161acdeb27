"""The wrapped form in which a message is pushed."""

from __future__ import annotations

import msgspec

from sandbox.pubsub.declared import Subscription
from sandbox.pubsub.message import Message
from sandbox.pubsub.timestamp import timestamp


def envelope(subscription: Subscription, message: Message, attempt: int) -> bytes:
    """The JSON body of a push.

    Args:
        subscription: its full name is sent along.
        message: ids and times are sent in both spellings, as Pub/Sub does; what is empty is left out.
        attempt: sent only where the subscription has a dead-letter policy.
    """
    published, message_id = timestamp(message.published), str(message.id)
    inner: dict[str, object] = {
        "messageId": message_id,
        "message_id": message_id,
        "publishTime": published,
        "publish_time": published,
    }
    if message.data:
        inner["data"] = message.data  # written as standard base64
    if message.attributes:
        inner["attributes"] = message.attributes
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    body: dict[str, object] = {"message": inner, "subscription": subscription.name}
    if subscription.dead_letter is not None:
        body["deliveryAttempt"] = attempt
    return msgspec.json.encode(body)
