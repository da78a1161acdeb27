"""The topic of a workload's messages."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract.settings.words import Workload


@dataclass(frozen=True, kw_only=True)
class JobTopicArgs:
    """Whose messages it carries."""

    settings: StackSettings
    workload: Workload


class JobTopic(pulumi.ComponentResource):
    """A topic. Its subscription is with the worker; who may publish is with the publisher."""

    topic: gcp.pubsub.Topic

    def __init__(self, name: str, args: JobTopicArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:JobTopic", name, {}, opts)
        self.topic = gcp.pubsub.Topic(
            f"{name}-jobs",
            name=args.settings.names.jobs(args.workload),
            project=args.settings.project,
            labels=labels(args.settings.stack, args.workload),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"topic": self.topic.id})
