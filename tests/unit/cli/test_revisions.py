"""`holdfast check`, on states as the engine exports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.failure import CommandFailed, ExitCode
from cli.main import app
from cli.revisions import unready
from sandbox.provider import provider
from sandbox.world import SERVICE, TOPIC
from tests.support.provider import SERVICE_INPUTS, changed, create, declared, new_world


def exported(*services: dict[str, Any]) -> str:
    rows = [{"type": SERVICE, "urn": "urn:s", "outputs": outputs} for outputs in services]
    return json.dumps({"version": 3, "deployment": {"resources": [{"type": TOPIC, "urn": "urn:t"}, *rows]}})


def upgraded(folder: Path) -> dict[str, Any]:
    """Outputs of a service that the stand-in provider deployed twice."""
    world = new_world(folder)
    first = create(world, SERVICE, SERVICE_INPUTS)
    new = declared(SERVICE, changed(SERVICE_INPUTS, "template.timeout", "900s"), world)
    return dict(provider.update(world, first, new).outputs)


def check(text: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check"], input=text)
    return done.exit_code, done.output


def test_a_service_that_runs_its_newest_revision_is_in_order(tmp_path: Path) -> None:
    """BR-136."""
    assert check(exported(upgraded(tmp_path))) == (0, "every service runs its newest revision\n")


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"latestReadyRevision": "worker-00001"}, "revision worker-00002 has not become ready, so worker-00001 takes"),
        ({"latestReadyRevision": None}, "revision worker-00002 has not become ready, so none takes the requests"),
        ({"latestReadyRevision": ""}, "so none takes the requests"),
        ({"latestCreatedRevision": None}, "the state does not say its newest revision; run `pulumi refresh`"),
        ({"latestCreatedRevision": "", "latestReadyRevision": ""}, "the state does not say its newest revision"),
    ],
)
def test_any_other_is_told_and_fails_the_command(tmp_path: Path, outputs: dict[str, Any], expected: str) -> None:
    """BR-136: also where the state is silent, and beside a service that is in order."""
    good = upgraded(tmp_path)
    code, said = check(exported(good, {**good, **outputs}))

    assert code == ExitCode.SERVICE_NOT_READY
    assert said.startswith("worker: ")
    assert expected in said
    assert said.count("\n") == 1, "one line for each service"


def test_full_names_of_revisions_are_compared_as_well(tmp_path: Path) -> None:
    full = "projects/p/locations/l/services/worker/revisions/worker-00002"
    assert unready(exported({**upgraded(tmp_path), "latestReadyRevision": full})) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"deployment": {}}', '{"deployment": {"resources": {}}}'])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="not the state of a stack") as caught:
        unready(text)
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_state_without_services_is_not_in_order() -> None:
    with pytest.raises(CommandFailed, match="has no service"):
        unready(exported())
