"""Forwarding a message that was delivered too often to its dead-letter topic."""

from __future__ import annotations

from collections.abc import Container

import structlog

from sandbox.identity.grants import Grants
from sandbox.pubsub.access import CONSUME, PUBLISH
from sandbox.pubsub.declared import DeadLetterPolicy, Subscription
from sandbox.pubsub.message import Draft, Message
from sandbox.pubsub.timestamp import timestamp
from sandbox.world import Kind, Target, short_name

log = structlog.get_logger()


class DeadLetters:
    """Decides whether a message is forwarded; without a grant it is not, and its deliveries go on.

    Args:
        grants: of the declared world.
        agent: member string of Pub/Sub's service agent, which does the forwarding.
    """

    def __init__(self, grants: Grants, agent: str) -> None:
        self._grants = grants
        self._agent = agent

    def destination(self, subscription: Subscription, attempts: int, topics: Container[str]) -> str | None:
        """The topic to forward to; None where the message stays.

        Args:
            subscription: where the message is.
            attempts: its deliveries, the one that just failed included.
            topics: full names of the topics that exist.
        """
        policy = subscription.dead_letter
        if policy is None or attempts < policy.max_attempts:
            return None
        step = f"dead-lettering from {short_name(subscription.name)}"
        if policy.topic not in topics:
            log.warning("dead_letter_topic_missing", topic=policy.topic, subscription=subscription.name)
            return None
        return policy.topic if self._granted(subscription, policy, step) else None

    def _granted(self, subscription: Subscription, policy: DeadLetterPolicy, step: str) -> bool:
        publish = self._grants.allow(self._agent, PUBLISH, Target(Kind.TOPIC, short_name(policy.topic)), step=step)
        source = Target(Kind.SUBSCRIPTION, short_name(subscription.name))
        return self._grants.allow(self._agent, CONSUME, source, step=step) and publish


def dead_letter(subscription: Subscription, message: Message, attempts: int) -> Draft:
    """The message as it is published to the dead-letter topic: with where it comes from in four attributes."""
    _, project, _, name = subscription.name.split("/")
    return Draft(
        data=message.data,
        attributes={
            **message.attributes,
            "CloudPubSubDeadLetterSourceDeliveryCount": str(attempts),
            "CloudPubSubDeadLetterSourceSubscription": name,
            "CloudPubSubDeadLetterSourceSubscriptionProject": project,
            "CloudPubSubDeadLetterSourceTopicPublishTime": timestamp(message.published),
        },
        ordering_key=message.ordering_key,
    )
