"""The command in a folder, played by a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.engine.command import PulumiCommand
from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.pulumi_home import PulumiHome
from tests.support.provider import new_world

LOG = '{"diagnosticEvent":{"message":"no such topic","severity":"error","color":"never"}}\n'


def played(folder: Path, script: str, **providers: int) -> PulumiCommand:
    """A command that does what a script says; `$log` is where it is to write its events."""
    home = PulumiHome(folder / "home")
    home.prepare("holdfast", new_world(home.world_dir))
    binary = folder / "pulumi"
    binary.write_text(f'#!/bin/sh\nlog="{home.root}/events.jsonl"\n{script}\n')
    binary.chmod(0o700)
    return PulumiCommand(binary, home, providers)


def test_a_failure_is_told_in_what_the_command_said(tmp_path: Path) -> None:
    with pytest.raises(DeploymentFailed) as caught:
        played(tmp_path, "echo; echo no such stack >&2; exit 255").demand("stack", "export")
    assert caught.value.lines == ("no such stack",)

    with pytest.raises(DeploymentFailed) as caught:
        played(tmp_path, "exit 3").demand("stack", "export")
    assert caught.value.lines == ("pulumi stack ended with 3 and said nothing",)


def test_a_failed_operation_is_told_in_the_engines_events_where_there_are_any(tmp_path: Path) -> None:
    with pytest.raises(DeploymentFailed) as caught:
        played(tmp_path, f"echo '{LOG}' > $log; echo error: update failed; exit 1").operate(1, "up")
    assert caught.value.lines == ("no such topic",)

    with pytest.raises(DeploymentFailed) as caught:
        played(tmp_path, "echo error: no such flag; exit 1").operate(1, "up")
    assert caught.value.lines == ("error: no such flag",), "the events of the last operation are not this one's"


def test_it_reads_what_it_is_given_and_is_led_to_the_providers_of_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_DEBUG_PROVIDERS", "gcp:1")

    said = played(tmp_path, 'echo "$PULUMI_DEBUG_PROVIDERS"; cat', gcp=7).demand("config", "set", given="sesame")
    assert said == "gcp:7\nsesame"
    assert played(tmp_path, 'echo "$PULUMI_DEBUG_PROVIDERS"').demand("version") == "\n"
