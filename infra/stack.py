"""Which components a stack has, in the order in which data flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.alignment import Plans, align
from infra.components.alerts import Alerts, AlertsArgs
from infra.components.api import Api, ApiArgs
from infra.components.dead_letter import DeadLetter, DeadLetterArgs
from infra.components.dead_letter_push import DeadLetterPush, DeadLetterPushArgs
from infra.components.dead_letter_sink import DeadLetterSink, DeadLetterSinkArgs
from infra.components.executor import Executor, ExecutorArgs
from infra.components.job_topic import JobTopic, JobTopicArgs
from infra.components.network import Network, NetworkArgs
from infra.components.public_endpoint import PublicEndpoint, PublicEndpointArgs
from infra.components.pubsub_agent import PubsubAgent, PubsubAgentArgs
from infra.components.push_worker import PushWorker, PushWorkerArgs
from infra.components.schedule import Schedule, ScheduleArgs
from infra.components.signing_key import SigningKey, SigningKeyArgs
from infra.components.state_store import StateStore, StateStoreArgs
from infra.images import DeployedImage, deploy_image
from infra.roles import api_settings, executor_settings, worker_settings
from infra.settings import StackSettings
from infra.storage import deploy_storage
from runtime.contract.alignment import Alignment
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.words import Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.timeouts import advise


@dataclass(frozen=True, slots=True)
class _Path:
    """The way of one workload's messages."""

    topic: JobTopic
    dead_letter: DeadLetter
    worker: PushWorker

    def exports(self, workload: Workload) -> dict[str, pulumi.Input[str]]:
        """What the stack exports of it."""
        return {
            f"{workload}_topic": self.topic.topic.id,
            f"{workload}_subscription": self.worker.subscription.id,
            f"{workload}_dead_letter_subscription": self.dead_letter.subscription.id,
        }


def deploy(settings: StackSettings) -> Mapping[str, pulumi.Input[str]]:
    """Declares every resource of a stack.

    Returns:
        what the stack exports.

    Raises:
        SettingsError: settings with which a service would not start.
    """
    facts = align(Plans(settings.worker, settings.api, settings.executor))
    for found in advise(facts):
        pulumi.log.warn(found.message)
    api_env = api_settings(settings, facts)
    worker_envs = {workload: worker_settings(settings, workload, facts) for workload in settings.workloads}

    image = deploy_image(settings)
    agent = PubsubAgent("pubsub", PubsubAgentArgs(settings=settings))
    store = StateStore("state", StateStoreArgs(settings=settings))
    paths = {workload: _deploy_path(settings, image, env, facts, store, agent) for workload, env in worker_envs.items()}
    execution = paths[Workload.EXECUTION]
    dead_letters = {workload: path.dead_letter for workload, path in paths.items()}
    letters = DeadLetterPush(
        "dead-letters",
        DeadLetterPushArgs(settings=settings, facts=facts, agent=agent, dead_letters=dead_letters),
    )
    sink = DeadLetterSink(
        "letters", DeadLetterSinkArgs(settings=settings, agent=agent, store=store, dead_letters=dead_letters)
    )
    executor = _deploy_executor(settings, image)
    network = _deploy_network(settings)
    api = _deploy_api(settings, image, api_env, store, execution, letters, sink, executor, network)
    Schedule("tick", ScheduleArgs(settings=settings, api=api))
    exports = {**image.exports, "api_address": api.address, "api_service": api.service.name}
    exports["signing_public_key"] = settings.signing_public_key
    if executor is not None:
        exports["executor_address"] = executor.address
    exports["dead_letter_bucket"] = sink.bucket.name
    for workload, path in paths.items():
        exports |= path.exports(workload)
    exports |= deploy_storage(settings, store, network)
    if settings.alerts is not None:
        Alerts("alerts", AlertsArgs(settings=settings, plan=settings.alerts))
    if settings.public_endpoint is not None:
        endpoint = PublicEndpoint(
            "public", PublicEndpointArgs(settings=settings, plan=settings.public_endpoint, api=api)
        )
        exports |= {"public_url": endpoint.url, "public_address": endpoint.address.address}
    return exports


def _deploy_network(settings: StackSettings) -> Network | None:
    if settings.executor is None and settings.usage_database is None:
        return None
    return Network("network", NetworkArgs(settings=settings))


def _deploy_executor(settings: StackSettings, image: DeployedImage) -> Executor | None:
    plan = settings.executor
    if plan is None:
        return None
    environment = executor_settings(settings, plan)
    return Executor(
        "executor", ExecutorArgs(settings=settings, image=image.reference, plan=plan, environment=environment)
    )


def _deploy_path(
    settings: StackSettings,
    image: DeployedImage,
    environment: WorkerSettings,
    facts: Alignment,
    store: StateStore,
    agent: PubsubAgent,
) -> _Path:
    workload = environment.workload
    topic = JobTopic(workload, JobTopicArgs(settings=settings, workload=workload))
    dead_letter = DeadLetter(workload, DeadLetterArgs(settings=settings, workload=workload))
    worker = PushWorker(
        workload,
        PushWorkerArgs(
            settings=settings,
            image=image.reference,
            environment=environment,
            facts=facts,
            topic=topic,
            dead_letter=dead_letter,
            store=store,
            agent=agent,
        ),
    )
    return _Path(topic, dead_letter, worker)


def _deploy_api(
    settings: StackSettings,
    image: DeployedImage,
    environment: ApiSettings,
    store: StateStore,
    execution: _Path,
    letters: DeadLetterPush,
    sink: DeadLetterSink,
    executor: Executor | None,
    network: Network | None,
) -> Api:
    return Api(
        "api",
        ApiArgs(
            settings=settings,
            image=image.reference,
            environment=environment,
            store=store,
            signing_key=SigningKey("signing", SigningKeyArgs(settings=settings)),
            topic=execution.topic,
            worker=execution.worker,
            dead_letters=letters,
            sink=sink,
            executor=executor,
            network=network if executor else None,
        ),
    )
