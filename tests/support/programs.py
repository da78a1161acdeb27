"""Runs of small programs on the embedded engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pulumi
import pulumi_gcp as gcp
import pytest

from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.engine.registration import Mutate, unchanged
from sandbox.world import World

CONFIG = {"gcp:project": "p-test", "gcp:region": "europe-west1", "holdfast:project_number": "123456789012"}
TOPIC_URN = "urn:pulumi:test::holdfast::gcp:pubsub/topic:Topic::jobs"


def run(
    program: Callable[[], None],
    folder: Path,
    config: dict[str, str] | None = None,
    *,
    mutate: Mutate = unchanged,
    before: World | None = None,
) -> Deployment:
    """Runs a program; `config` without its namespace."""
    return realise(
        {**CONFIG, **{f"holdfast:{name}": value for name, value in (config or {}).items()}},
        {"holdfast:key": "sesame"},
        stack="test",
        world_dir=folder,
        program=program,
        mutate=mutate,
        before=before,
        with_policies=False,
    )


def lines_of(program: Callable[[], None], folder: Path, config: dict[str, str] | None = None) -> tuple[str, ...]:
    """The lines with which a run fails."""
    with pytest.raises(DeploymentFailed) as caught:
        run(program, folder, config)
    return caught.value.lines


class Pipe(pulumi.ComponentResource):
    """A topic, its subscription, and a grant on the topic."""

    def __init__(self, name: str, *, ack: int = 60, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("test:index:Pipe", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.topic = gcp.pubsub.Topic(f"{name}-topic", name=f"{name}-topic", opts=child)
        account = gcp.serviceaccount.Account(f"{name}-account", account_id=f"{name}-account", opts=child)
        self.subscription = gcp.pubsub.Subscription(
            f"{name}-sub", name=f"{name}-sub", topic=self.topic.id, ack_deadline_seconds=ack, opts=child
        )
        gcp.pubsub.TopicIAMMember(
            f"{name}-grant", topic=self.topic.id, role="roles/pubsub.publisher", member=account.member, opts=child
        )
        self.register_outputs({"subscription": self.subscription.id})


def two_pipes() -> None:
    """Four resources each; `ack` is the subscriptions' deadline, `one` leaves the second out."""
    ack = pulumi.Config().get_int("ack") or 60
    Pipe("first", ack=ack)
    if not pulumi.Config().get_bool("one"):
        Pipe("second", ack=ack)


def one_topic() -> None:
    """The topic of TOPIC_URN."""
    gcp.pubsub.Topic("jobs", name="jobs")


def nothing() -> None:
    """Declares nothing."""
