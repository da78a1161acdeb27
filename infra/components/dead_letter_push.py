"""The way of dead letters to the API, which ends the runs that nobody else ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.alignment import known
from infra.components.dead_letter import RETENTION, DeadLetter
from infra.components.pubsub_agent import PubsubAgent
from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract import names
from runtime.contract.alignment import Alignment
from runtime.contract.limits import ACK_DEADLINE_MAX
from runtime.contract.settings.words import Workload

MINIMUM_BACKOFF: Final = "10s"
MAXIMUM_BACKOFF: Final = "600s"
"""A letter waits for a live lease, or for the API: soon at first, and for weeks where it must."""


@dataclass(frozen=True, kw_only=True)
class DeadLetterPushArgs:
    """Whose dead letters are pushed."""

    settings: StackSettings
    facts: Alignment
    agent: PubsubAgent
    dead_letters: Mapping[Workload, DeadLetter]


class DeadLetterPush(pulumi.ComponentResource):
    """One push subscription on each dead-letter topic, all with one identity that has no role.

    The API checks the identity's token by itself. The subscriptions have no dead letters of their own: a letter that
    cannot be recorded stays until it can. They do not wait for the API's service: what arrives before it is kept.
    Does not touch the subscriptions that keep the messages for people.
    """

    ready: list[pulumi.Resource]
    """What must exist before anything is published."""

    def __init__(self, name: str, args: DeadLetterPushArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:DeadLetterPush", name, {}, opts)
        self._args = args
        identity = gcp.serviceaccount.Account(
            f"{name}-identity",
            account_id=args.settings.names.dead_letter_identity,
            project=args.settings.project,
            display_name="Holdfast dead letters: pushes them to the API",
            opts=self._child(),
        )
        signs = gcp.serviceaccount.IAMMember(
            f"{name}-agent-signs",
            service_account_id=identity.name,
            role="roles/iam.serviceAccountTokenCreator",
            member=args.agent.member,
            opts=self._child([args.agent.identity]),
        )
        self.ready = [self._create_subscription(workload, identity, signs) for workload in args.dead_letters]
        self.register_outputs({"identity": identity.email})

    def _child(self, depends_on: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on or [])

    def _create_subscription(
        self, workload: Workload, identity: gcp.serviceaccount.Account, signs: pulumi.Resource
    ) -> gcp.pubsub.Subscription:
        settings = self._args.settings
        address = settings.names.address(settings.names.api)
        return gcp.pubsub.Subscription(
            f"{workload}-dead-letters-push",
            name=settings.names.dead_letters_push(workload),
            project=settings.project,
            topic=self._args.dead_letters[workload].topic.id,
            ack_deadline_seconds=min(known(self._args.facts.api_timeout), ACK_DEADLINE_MAX),
            message_retention_duration=RETENTION,
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            retry_policy=gcp.pubsub.SubscriptionRetryPolicyArgs(
                minimum_backoff=MINIMUM_BACKOFF, maximum_backoff=MAXIMUM_BACKOFF
            ),
            push_config=gcp.pubsub.SubscriptionPushConfigArgs(
                push_endpoint=f"{address}{names.DEAD_LETTERS_PATH}?{names.DEAD_LETTER_SOURCE}={workload}",
                oidc_token=gcp.pubsub.SubscriptionPushConfigOidcTokenArgs(
                    service_account_email=identity.email, audience=address
                ),
            ),
            labels=labels(settings.stack, workload),
            opts=self._child([signs]),
        )
