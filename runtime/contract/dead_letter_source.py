"""What Pub/Sub says of a message that it moved to a dead-letter topic: where it came from, in four attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from runtime.contract.dead_letter import read_time

SUBSCRIPTION: Final = "CloudPubSubDeadLetterSourceSubscription"
PROJECT: Final = "CloudPubSubDeadLetterSourceSubscriptionProject"
DELIVERY_COUNT: Final = "CloudPubSubDeadLetterSourceDeliveryCount"
PUBLISH_TIME: Final = "CloudPubSubDeadLetterSourceTopicPublishTime"

_PROJECT: Final = re.compile(r"[A-Za-z0-9.:-]{1,64}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{2,254}", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


class DeadLetterSource(NamedTuple):
    """Where a dead-lettered message was given up.

    Attributes:
        subscription: full name.
        delivery_count: deliveries; None where it is not said.
        published_at: when the message was first published; None where it is not said.
    """

    subscription: str
    delivery_count: int | None
    published_at: datetime | None


def read_source(attributes: Mapping[str, str]) -> DeadLetterSource | None:
    """The source that the attributes name; None where they name none: then nobody moved the message here."""
    name, project = attributes.get(SUBSCRIPTION, ""), attributes.get(PROJECT, "")
    if _NAME.fullmatch(name) is None or _PROJECT.fullmatch(project) is None:
        return None
    count = attributes.get(DELIVERY_COUNT, "")
    return DeadLetterSource(
        subscription=f"projects/{project}/subscriptions/{name}",
        delivery_count=int(count) if _COUNT.fullmatch(count) else None,
        published_at=read_time(attributes.get(PUBLISH_TIME)),
    )
