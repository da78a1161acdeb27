"""Where dead letters are kept as files, after Pub/Sub has let go of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.components.bucket import RECOVERY_MIN, BucketArgs, create_bucket
from infra.components.dead_letter import RETENTION, DeadLetter
from infra.components.pubsub_agent import PubsubAgent
from infra.components.state_store import StateStore
from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract.limits import ACK_DEADLINE_MAX
from runtime.contract.settings.words import Workload

LONGEST_WAIT: Final = "300s"
"""A file is closed by then; Pub/Sub allows one to ten minutes, and no more than the ack deadline."""
LARGEST_FILE: Final = 100_000_000
"""Bytes at which a file is closed before that; a letter has at most ten million."""
ROLES: Final = {"creates": "roles/storage.objectCreator", "reads": "roles/storage.legacyBucketReader"}
"""Part of a grant's name -> role; without either, Pub/Sub writes nothing."""


@dataclass(frozen=True, kw_only=True)
class DeadLetterSinkArgs:
    """Whose dead letters are kept, and what takes longer to make than the grants to be in force."""

    settings: StackSettings
    agent: PubsubAgent
    store: StateStore
    dead_letters: Mapping[Workload, DeadLetter]


class DeadLetterSink(pulumi.ComponentResource):
    """One bucket, and on each dead-letter topic a subscription that writes whole messages to it as Avro files.

    Does not read what it keeps, nor tell anybody: replay works from the API's records, and the files are for what those
    do not hold. Files go by themselves after `holdfast:dead_letter_sink`'s days. Has no versions: nothing is ever
    written over.
    """

    bucket: gcp.storage.Bucket
    ready: list[pulumi.Resource]
    """What must exist before anything is published."""

    def __init__(self, name: str, args: DeadLetterSinkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:DeadLetterSink", name, {}, opts)
        self._name, self._args = name, args
        self.bucket = create_bucket(
            f"{name}-bucket",
            BucketArgs(
                settings=args.settings,
                name=args.settings.names.dead_letter_bucket,
                part="dead-letters",
                recovery_days=RECOVERY_MIN if args.settings.deletion_protection else 0,
                kept_days=args.settings.dead_letter_sink.kept_days,
            ),
            parent=self,
        )
        grants = [self._grant(part, role) for part, role in ROLES.items()]
        self.ready = [self._create_subscription(workload, grants) for workload in args.dead_letters]
        self.register_outputs({"bucket": self.bucket.name})

    def _grant(self, part: str, role: str) -> pulumi.Resource:
        return gcp.storage.BucketIAMMember(
            f"{self._name}-agent-{part}",
            bucket=self.bucket.name,
            role=role,
            member=self._args.agent.member,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self._args.agent.identity]),
        )

    def _create_subscription(self, workload: Workload, grants: list[pulumi.Resource]) -> gcp.pubsub.Subscription:
        settings = self._args.settings
        return gcp.pubsub.Subscription(
            f"{workload}-dead-letters-sink",
            name=settings.names.dead_letters_sink(workload),
            project=settings.project,
            topic=self._args.dead_letters[workload].topic.id,
            ack_deadline_seconds=ACK_DEADLINE_MAX,
            message_retention_duration=RETENTION,
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            cloud_storage_config=gcp.pubsub.SubscriptionCloudStorageConfigArgs(
                bucket=self.bucket.name,
                filename_prefix=f"{workload}/",
                filename_suffix=".avro",
                filename_datetime_format="YYYY-MM-DD/hh_mm_ssZ",
                max_duration=LONGEST_WAIT,
                max_bytes=LARGEST_FILE,
                # With its attributes, which say where a letter comes from and how often it was tried.
                avro_config=gcp.pubsub.SubscriptionCloudStorageConfigAvroConfigArgs(write_metadata=True),
            ),
            labels=labels(settings.stack, workload),
            # Pub/Sub looks at the grants when the subscription is made, and they take up to minutes to be in force.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*grants, *self._args.store.ready]),
        )
