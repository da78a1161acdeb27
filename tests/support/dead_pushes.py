"""Pushes of a dead-letter topic, as Pub/Sub makes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

SOURCE = "projects/p-test/subscriptions/execution-push"
PUBLISHED = "2026-01-01T00:00:00.250+00:00"


def dead_push(
    data: bytes | Mapping[str, Any],
    *,
    message_id: str = "9001",
    published: str = PUBLISHED,
    deliveries: str = "20",
    source: str = "execution-push",
    **attributes: str,
) -> bytes:
    """The body of a push; `data` as a mapping is sent as JSON."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    said = {
        **attributes,
        "CloudPubSubDeadLetterSourceDeliveryCount": deliveries,
        "CloudPubSubDeadLetterSourceSubscription": source,
        "CloudPubSubDeadLetterSourceSubscriptionProject": "p-test",
        "CloudPubSubDeadLetterSourceTopicPublishTime": published,
    }
    message = {
        "data": base64.b64encode(raw).decode(), "messageId": message_id, "publishTime": "2026-01-01T02:00:00Z",
        "attributes": said,
    }  # fmt: skip
    body = {"message": message, "subscription": "projects/p-test/subscriptions/execution-dead-letters-push"}
    return json.dumps(body).encode()
