"""A worker service and the subscription that pushes to it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.alignment import known
from infra.components.dead_letter import DeadLetter
from infra.components.job_topic import JobTopic
from infra.components.pubsub_agent import PubsubAgent
from infra.components.service import Ingress, ServiceArgs, create_service
from infra.components.state_store import StateStore
from infra.components.trace_writer import grant_trace_writer
from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract.alignment import Alignment
from runtime.contract.settings.words import PushAuth
from runtime.contract.settings.worker import WorkerSettings


@dataclass(frozen=True, kw_only=True)
class PushWorkerArgs:
    """What the worker is started with, and what it stands between."""

    settings: StackSettings
    image: pulumi.Input[str]
    environment: WorkerSettings
    facts: Alignment
    topic: JobTopic
    dead_letter: DeadLetter
    store: StateStore
    agent: PubsubAgent


class PushWorker(pulumi.ComponentResource):
    """A service with an account of its own, a push subscription with an identity of its own, and their grants.

    Does not manage the topic, the dead letters and the database, which outlive the worker. Its service takes traffic
    from inside the project only, and from the push identity only.
    """

    service: gcp.cloudrunv2.Service
    subscription: gcp.pubsub.Subscription
    ready: list[pulumi.Resource]
    """What must exist before anything is published: delivery, and the way to the dead letters."""

    def __init__(self, name: str, args: PushWorkerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:PushWorker", name, {}, opts)
        self._name, self._args = name, args
        settings, workload = args.settings, args.environment.workload
        account = self._create_account("account", settings.names.worker(workload), "runs the worker")
        identity = self._create_account("push-identity", settings.names.push(workload), "pushes to the worker")
        self.service = self._create_service(account)
        before_push = [
            *self._grant_invoker(identity),
            self._grant_token_creator(identity),
            self._grant_dead_letter_publisher(),
            args.dead_letter.subscription,
        ]
        self.subscription = self._create_subscription(identity, before_push)
        self.ready = [self.subscription, self._grant_subscriber()]
        self.register_outputs({"service": self.service.name, "subscription": self.subscription.id})

    def _child(self, depends_on: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on or [])

    def _create_account(self, suffix: str, account_id: str, purpose: str) -> gcp.serviceaccount.Account:
        return gcp.serviceaccount.Account(
            f"{self._name}-{suffix}",
            account_id=account_id,
            project=self._args.settings.project,
            display_name=f"Holdfast {self._name}: {purpose}",
            opts=self._child(),
        )

    def _create_service(self, account: gcp.serviceaccount.Account) -> gcp.cloudrunv2.Service:
        settings, environment, facts = self._args.settings, self._args.environment, self._args.facts
        reads_state = gcp.projects.IAMMember(
            f"{self._name}-uses-state",
            project=settings.project,
            role="roles/datastore.user",
            member=account.member,
            opts=self._child(),
        )
        traces = grant_trace_writer(self._name, settings, account, self._child())
        return create_service(
            f"{self._name}-service",
            ServiceArgs(
                settings=settings,
                image=self._args.image,
                role="worker",
                part=environment.workload,
                name=settings.names.worker(environment.workload),
                account=account.email,
                environment=environment.to_env(),
                timeout=environment.request_timeout,
                concurrency=settings.worker.concurrency,
                min_instances=settings.worker.min_instances,
                max_instances=settings.worker.max_instances,
                cpu=settings.worker.cpu,
                memory=settings.worker.memory,
                cpu_idle=bool(facts.cpu_idle),
                ingress=Ingress.INTERNAL,
                invoker_check=environment.push_auth is PushAuth.PLATFORM,
            ),
            self._child([reads_state, *traces, *self._args.store.ready]),
        )

    def _grant_invoker(self, identity: gcp.serviceaccount.Account) -> list[pulumi.Resource]:
        """Where the worker checks tokens by itself, the platform asks for no invoker."""
        if self._args.environment.push_auth is not PushAuth.PLATFORM:
            return []
        return [
            gcp.cloudrunv2.ServiceIamMember(
                f"{self._name}-push-invokes",
                project=self._args.settings.project,
                location=self._args.settings.region,
                name=self.service.name,
                role="roles/run.invoker",
                member=identity.member,
                opts=self._child(),
            )
        ]

    def _grant_token_creator(self, identity: gcp.serviceaccount.Account) -> pulumi.Resource:
        """Pub/Sub signs push tokens in the name of the push identity."""
        return gcp.serviceaccount.IAMMember(
            f"{self._name}-agent-signs",
            service_account_id=identity.name,
            role="roles/iam.serviceAccountTokenCreator",
            member=self._args.agent.member,
            opts=self._child([self._args.agent.identity]),
        )

    def _grant_dead_letter_publisher(self) -> pulumi.Resource:
        return gcp.pubsub.TopicIAMMember(
            f"{self._name}-agent-dead-letters",
            project=self._args.settings.project,
            topic=self._args.dead_letter.topic.id,
            role="roles/pubsub.publisher",
            member=self._args.agent.member,
            opts=self._child([self._args.agent.identity]),
        )

    def _grant_subscriber(self) -> pulumi.Resource:
        """Forwarding a dead letter acknowledges it on the source subscription. The grant goes with its subscription."""
        return gcp.pubsub.SubscriptionIAMMember(
            f"{self._name}-agent-forwards",
            project=self._args.settings.project,
            subscription=self.subscription.id,
            role="roles/pubsub.subscriber",
            member=self._args.agent.member,
            opts=self._child([self._args.agent.identity]),
        )

    def _create_subscription(
        self, identity: gcp.serviceaccount.Account, before: list[pulumi.Resource]
    ) -> gcp.pubsub.Subscription:
        settings, environment, facts = self._args.settings, self._args.environment, self._args.facts
        address = settings.names.address(settings.names.worker(environment.workload))
        return gcp.pubsub.Subscription(
            f"{self._name}-push",
            name=settings.names.push(environment.workload),
            project=settings.project,
            topic=self._args.topic.topic.id,
            ack_deadline_seconds=known(facts.ack_subscription),
            message_retention_duration=f"{known(facts.message_retention)}s",
            # Without it a subscription that is idle for a month is removed.
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            retry_policy=gcp.pubsub.SubscriptionRetryPolicyArgs(
                minimum_backoff=f"{known(facts.min_backoff)}s", maximum_backoff=f"{known(facts.max_backoff)}s"
            ),
            dead_letter_policy=gcp.pubsub.SubscriptionDeadLetterPolicyArgs(
                dead_letter_topic=self._args.dead_letter.topic.id,
                max_delivery_attempts=known(facts.broker_attempts),
            ),
            push_config=gcp.pubsub.SubscriptionPushConfigArgs(
                push_endpoint=address,
                oidc_token=gcp.pubsub.SubscriptionPushConfigOidcTokenArgs(
                    service_account_email=identity.email, audience=address
                ),
            ),
            labels=labels(settings.stack, environment.workload),
            opts=self._child([self.service, *before]),
        )
