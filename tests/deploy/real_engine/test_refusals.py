"""What the real engine refuses is told as the embedded one tells it: a line for each fault, before anything exists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pulumi
import pulumi_gcp as gcp
import pytest
from rich.console import Console

from cli.failure import CommandFailed, ExitCode
from cli.preview import preview_stack
from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.engine.pulumi_cli import policy_packs
from sandbox.world import SUBSCRIPTION, TOPIC
from tests.support.real_engine import ROOT, binary, embedded, engine, saved_world, values_of


def test_a_value_that_does_not_hold_is_refused_by_both_engines_alike(tmp_path: Path) -> None:
    real = engine(tmp_path / "real", "dev", worker={"run_timeout_seconds": 600})
    with pytest.raises(DeploymentFailed) as refused:
        real.preview()
    with pytest.raises(DeploymentFailed) as here:
        embedded(tmp_path / "embedded", "dev", worker={"run_timeout_seconds": 600})

    assert refused.value.lines == here.value.lines
    assert len(saved_world(real)) == 0


def test_what_the_platform_would_refuse_is_refused_in_a_preview(tmp_path: Path) -> None:
    """Also where another input is not known yet."""

    def program() -> None:
        topic = gcp.pubsub.Topic("jobs", name="jobs")
        gcp.pubsub.Subscription("push", name="push", topic=topic.id, ack_deadline_seconds=601)

    with pytest.raises(DeploymentFailed) as caught:
        engine(tmp_path, "dev", program).preview()

    (line,) = caught.value.lines
    assert line == f"push ({SUBSCRIPTION}): ackDeadlineSeconds: 601 is refused; it must be 10 to 600"


def test_what_the_policy_pack_refuses_is_refused_by_both_engines_alike(tmp_path: Path) -> None:
    """On the real one the pack runs beside the engine, as it does for any user of it."""

    def program() -> None:
        topic = gcp.pubsub.Topic("jobs", name="jobs")
        gcp.pubsub.Subscription("push", name="push", topic=topic.id, ack_deadline_seconds=60)

    judged = replace(engine(tmp_path, "dev", program), policy_packs=policy_packs(ROOT))
    with pytest.raises(DeploymentFailed) as caught:
        judged.preview()

    assert caught.value.lines
    with pytest.raises(DeploymentFailed) as here:
        realise(values_of("dev"), {}, stack="dev", world_dir=tmp_path / "embedded", program=program)
    assert sorted(here.value.lines) == sorted(caught.value.lines)


def test_a_failed_creation_names_its_resource_and_why(tmp_path: Path) -> None:
    def program() -> None:
        first = gcp.pubsub.Topic("first", name="jobs")
        gcp.pubsub.Topic("second", name="jobs", opts=pulumi.ResourceOptions(depends_on=[first]))

    with pytest.raises(DeploymentFailed) as caught:
        engine(tmp_path, "dev", program).up()

    (line,) = caught.value.lines
    assert line == f"second ({TOPIC}): {TOPIC} jobs already exists; two resources cannot share its name"


def test_the_preview_command_shows_what_would_be_created_and_says_what_it_cannot_read(tmp_path: Path) -> None:
    binary()
    out = Console(record=True, width=160)

    assert preview_stack(out, "dev", ROOT) is ExitCode.OK
    shown = out.export_text()
    assert "execution-push" in shown
    assert "in an empty project" in shown

    with pytest.raises(CommandFailed, match=r"no such file; there are stacks dev, local, prod"):
        preview_stack(out, "staging", ROOT)
    config = {"gcp:project": "x", "holdfast:key": {"secure": "v1:abc"}}
    (tmp_path / "Pulumi.dev.yaml").write_text(json.dumps({"config": config}))
    with pytest.raises(CommandFailed, match="holdfast:key cannot be read offline"):
        preview_stack(out, "dev", tmp_path)
