"""Where Pub/Sub puts the messages that it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract.settings.words import Workload

RETENTION: Final = "2678400s"
"""Pub/Sub's longest: 31 days to look at a dead letter."""


@dataclass(frozen=True, kw_only=True)
class DeadLetterArgs:
    """Whose dead letters it takes."""

    settings: StackSettings
    workload: Workload


class DeadLetter(pulumi.ComponentResource):
    """A dead-letter topic and the subscription that keeps what arrives: without one, Pub/Sub would drop it.

    Does not grant the service agent its roles: they are with the subscription whose messages are forwarded. The
    subscription has no dead letters of its own and never expires.
    """

    topic: gcp.pubsub.Topic
    subscription: gcp.pubsub.Subscription

    def __init__(self, name: str, args: DeadLetterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:DeadLetter", name, {}, opts)
        settings = args.settings
        physical = settings.names.dead_letters(args.workload)
        self.topic = gcp.pubsub.Topic(
            f"{name}-dead-letters",
            name=physical,
            project=settings.project,
            labels=labels(settings.stack, args.workload),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.subscription = gcp.pubsub.Subscription(
            f"{name}-dead-letters",
            name=physical,
            project=settings.project,
            topic=self.topic.id,
            ack_deadline_seconds=60,
            message_retention_duration=RETENTION,
            retain_acked_messages=False,
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            labels=labels(settings.stack, args.workload),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"topic": self.topic.id, "subscription": self.subscription.id})
