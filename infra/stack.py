"""Which components a stack has, in the order in which data flows."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from infra.alignment import Plans, align
from infra.components.api import Api, ApiArgs
from infra.components.dead_letter import DeadLetter, DeadLetterArgs
from infra.components.job_topic import JobTopic, JobTopicArgs
from infra.components.pubsub_agent import PubsubAgent, PubsubAgentArgs
from infra.components.push_worker import PushWorker, PushWorkerArgs
from infra.components.schedule import Schedule, ScheduleArgs
from infra.components.signing_key import SigningKey, SigningKeyArgs
from infra.components.state_store import StateStore, StateStoreArgs
from infra.roles import api_settings, worker_settings
from infra.settings import StackSettings
from runtime.contract.settings.words import Workload
from runtime.contract.timeouts import advise


def deploy(settings: StackSettings) -> Mapping[str, pulumi.Input[str]]:
    """Declares every resource of a stack.

    Returns:
        what the stack exports.

    Raises:
        SettingsError: settings with which a service would not start.
    """
    facts = align(Plans(settings.worker, settings.api))
    for found in advise(facts):
        pulumi.log.warn(found.message)
    api_env = api_settings(settings, facts)
    worker_envs = {workload: worker_settings(settings, workload, facts) for workload in settings.workloads}

    agent = PubsubAgent("pubsub", PubsubAgentArgs(settings=settings))
    store = StateStore("state", StateStoreArgs(settings=settings))
    signing_key = SigningKey("signing", SigningKeyArgs(settings=settings))
    topics: dict[Workload, JobTopic] = {}
    workers: dict[Workload, PushWorker] = {}
    exports: dict[str, pulumi.Input[str]] = {}
    for workload, environment in worker_envs.items():
        topics[workload] = JobTopic(workload, JobTopicArgs(settings=settings, workload=workload))
        dead_letter = DeadLetter(workload, DeadLetterArgs(settings=settings, workload=workload))
        workers[workload] = PushWorker(
            workload,
            PushWorkerArgs(
                settings=settings,
                environment=environment,
                facts=facts,
                topic=topics[workload],
                dead_letter=dead_letter,
                store=store,
                agent=agent,
            ),
        )
        exports[f"{workload}_topic"] = topics[workload].topic.id
        exports[f"{workload}_subscription"] = workers[workload].subscription.id
        exports[f"{workload}_dead_letter_subscription"] = dead_letter.subscription.id
    api = Api(
        "api",
        ApiArgs(
            settings=settings,
            environment=api_env,
            store=store,
            signing_key=signing_key,
            topic=topics[Workload.EXECUTION],
            worker=workers[Workload.EXECUTION],
        ),
    )
    Schedule("tick", ScheduleArgs(settings=settings, api=api))
    return {"api_address": api.address, "api_service": api.service.name, **exports}
