"""The bucket of users' files, and the events of its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.components.bucket import BucketArgs, create_bucket
from infra.components.state_store import StateStore
from infra.naming import labels
from infra.sections.content import ContentPlan
from infra.settings import StackSettings

RETENTION: Final = "2678400s"
"""Pub/Sub's longest: 31 days until a worker must take the events."""
EVENTS: Final[Mapping[str, Sequence[str]]] = {
    "apps/": ("OBJECT_FINALIZE", "OBJECT_DELETE"),
    "users/": ("OBJECT_FINALIZE", "OBJECT_DELETE"),
    "media/": ("OBJECT_FINALIZE",),
}
"""Prefix of a layout -> events that its worker acts on; what a media worker deletes itself is no news to it."""
_PART: Final = "content"


@dataclass(frozen=True, kw_only=True)
class ContentBucketArgs:
    """How long what is deleted can be brought back, and what takes longer to make than the grant to be in force."""

    settings: StackSettings
    plan: ContentPlan
    store: StateStore


class ContentBucket(pulumi.ComponentResource):
    """A bucket, a topic, one notification for each prefix, and a subscription that keeps the events for 31 days.

    Grants nobody anything on the bucket, and has no worker that takes the events: both are with the workloads that use
    them. Objects outside of the prefixes send nothing. Does not manage CORS, nor a CDN in front.
    """

    bucket: gcp.storage.Bucket
    topic: gcp.pubsub.Topic
    subscription: gcp.pubsub.Subscription

    def __init__(self, name: str, args: ContentBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:ContentBucket", name, {}, opts)
        self._name, self._settings = name, args.settings
        bucket = BucketArgs(
            settings=args.settings,
            name=args.settings.names.content_bucket,
            part=_PART,
            recovery_days=args.plan.recovery_days,
        )
        self.bucket = create_bucket(f"{name}-bucket", bucket, parent=self)
        self.topic = gcp.pubsub.Topic(
            f"{name}-objects",
            name=self._settings.names.objects,
            project=self._settings.project,
            labels=labels(self._settings.stack, _PART),
            opts=self._child(),
        )
        self.subscription = self._create_subscription()
        # What is announced before it can be kept is lost. Cloud Storage looks at the grant when a notification is made,
        # and a grant takes up to minutes to be in force.
        before = [self._grant_publisher(), self.subscription, *args.store.ready]
        for prefix, events in EVENTS.items():
            self._create_notification(prefix, events, before)
        self.register_outputs({"bucket": self.bucket.name, "topic": self.topic.id})

    def _child(self, depends_on: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on or [])

    def _create_subscription(self) -> gcp.pubsub.Subscription:
        return gcp.pubsub.Subscription(
            f"{self._name}-objects",
            name=self._settings.names.objects,
            project=self._settings.project,
            topic=self.topic.id,
            ack_deadline_seconds=60,
            message_retention_duration=RETENTION,
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            labels=labels(self._settings.stack, _PART),
            opts=self._child(),
        )

    def _grant_publisher(self) -> pulumi.Resource:
        # Asking for the agent also creates it, which a fresh project needs.
        agent = gcp.storage.get_project_service_account_output(
            project=self._settings.project, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        return gcp.pubsub.TopicIAMMember(
            f"{self._name}-storage-publishes",
            project=self._settings.project,
            topic=self.topic.id,
            role="roles/pubsub.publisher",
            member=agent.member,
            opts=self._child(),
        )

    def _create_notification(self, prefix: str, events: Sequence[str], before: list[pulumi.Resource]) -> None:
        gcp.storage.Notification(
            f"{self._name}-notifies-{prefix.rstrip('/')}",
            bucket=self.bucket.name,
            topic=self.topic.id,
            payload_format="JSON_API_V1",
            event_types=list(events),
            object_name_prefix=prefix,
            opts=self._child(before),
        )
