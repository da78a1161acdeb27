"""The API service."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.components.dead_letter_push import DeadLetterPush
from infra.components.dead_letter_sink import DeadLetterSink
from infra.components.executor import Executor
from infra.components.job_topic import JobTopic
from infra.components.network import Network
from infra.components.push_worker import PushWorker
from infra.components.service import Ingress, SecretSource, ServiceArgs, confirmed_address, create_service
from infra.components.signing_key import SigningKey
from infra.components.state_store import StateStore
from infra.components.trace_writer import grant_trace_writer
from infra.settings import StackSettings
from runtime.contract.settings.api import ApiSettings


@dataclass(frozen=True, kw_only=True)
class ApiArgs:
    """What the API is started with, and what it uses; without an executor, no network either."""

    settings: StackSettings
    image: pulumi.Input[str]
    environment: ApiSettings
    store: StateStore
    signing_key: SigningKey
    topic: JobTopic
    worker: PushWorker
    dead_letters: DeadLetterPush
    sink: DeadLetterSink
    executor: Executor | None = None
    network: Network | None = None


class Api(pulumi.ComponentResource):
    """A public service with an account of its own, and its grants.

    Public means that the platform checks no caller: the API does, and takes only verified tokens of one identity each
    on its internal routes. Does not manage API keys, of which the stack knows hashes only.
    """

    service: gcp.cloudrunv2.Service
    address: pulumi.Output[str]
    """Confirmed by the platform; what is planned uses the same text from `infra.naming`."""

    def __init__(self, name: str, args: ApiArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:Api", name, {}, opts)
        self._name, self._args = name, args
        account = gcp.serviceaccount.Account(
            f"{name}-account",
            account_id=args.settings.names.api,
            project=args.settings.project,
            display_name="Holdfast API",
            opts=self._child(),
        )
        self.service = self._create_service(account, self._create_grants(account))
        self.address = confirmed_address(self.service, args.settings.names.address(args.settings.names.api))
        self.register_outputs({"address": self.address})

    def _child(self, depends_on: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on or [])

    def _create_grants(self, account: gcp.serviceaccount.Account) -> list[pulumi.Resource]:
        project = self._args.settings.project
        return [
            gcp.projects.IAMMember(
                f"{self._name}-uses-state",
                project=project,
                role="roles/datastore.user",
                member=account.member,
                opts=self._child(),
            ),
            gcp.pubsub.TopicIAMMember(
                f"{self._name}-publishes-execution",
                project=project,
                topic=self._args.topic.topic.id,
                role="roles/pubsub.publisher",
                member=account.member,
                # What is published before it can be delivered, or dead-lettered, is lost.
                opts=self._child([*self._args.worker.ready, *self._args.dead_letters.ready, *self._args.sink.ready]),
            ),
            gcp.secretmanager.SecretIamMember(
                f"{self._name}-reads-signing-key",
                project=project,
                secret_id=self._args.signing_key.secret.id,
                role="roles/secretmanager.secretAccessor",
                member=account.member,
                opts=self._child(),
            ),
            *self._grant_invoker(account),
            *grant_trace_writer(self._name, self._args.settings, account, self._child()),
        ]

    def _grant_invoker(self, account: gcp.serviceaccount.Account) -> list[pulumi.Resource]:
        executor = self._args.executor
        if executor is None:
            return []
        return [
            gcp.cloudrunv2.ServiceIamMember(
                f"{self._name}-invokes-executor",
                project=self._args.settings.project,
                location=self._args.settings.region,
                name=executor.service.name,
                role="roles/run.invoker",
                member=account.member,
                opts=self._child(),
            )
        ]

    def _create_service(
        self, account: gcp.serviceaccount.Account, grants: list[pulumi.Resource]
    ) -> gcp.cloudrunv2.Service:
        settings, environment, key = self._args.settings, self._args.environment, self._args.signing_key
        executor, network = self._args.executor, self._args.network
        return create_service(
            f"{self._name}-service",
            ServiceArgs(
                settings=settings,
                image=self._args.image,
                role="api",
                part="api",
                name=settings.names.api,
                account=account.email,
                environment=environment.to_env(),
                secrets={"BACKEND_KEY": SecretSource(secret=key.secret.secret_id, version=key.version.version)},
                timeout=environment.request_timeout,
                concurrency=settings.api.concurrency,
                min_instances=settings.api.min_instances,
                max_instances=settings.api.max_instances,
                cpu=settings.api.cpu,
                memory=settings.api.memory,
                # A run goes on at the executor when its caller has left, and the API follows it.
                cpu_idle=executor is None,
                ingress=Ingress.ALL,
                invoker_check=False,
                vpc_access=network.access if network else None,
            ),
            self._child([*grants, *self._args.store.ready, *(network.ready if network else ())]),
        )
