"""The real engine's state, as an export writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sandbox.engine.engine_state import EngineState
from sandbox.engine.wire import SECRET, SIGNATURE
from sandbox.world import TOPIC
from tests.support.provider import create, new_world

STACK = "urn:pulumi:test::holdfast::pulumi:pulumi:Stack::holdfast-test"
URN = f"urn:pulumi:test::holdfast::{TOPIC}::jobs"


def row(**changes: Any) -> dict[str, Any]:
    """A topic's row."""
    return {
        "urn": URN,
        "type": TOPIC,
        "custom": True,
        "id": "projects/p-test/topics/jobs",
        "parent": STACK,
        "inputs": {"name": "jobs", "retained": 7, "key": {SIGNATURE: SECRET, "plaintext": json.dumps("sesame")}},
        "dependencies": ["urn:b", "urn:a"],
        "propertyDependencies": {"name": [], "key": ["urn:a"]},
        "protect": True,
        **changes,
    }


def test_registrations_are_read_without_the_stack_and_its_providers() -> None:
    others = [
        {"urn": STACK, "type": "pulumi:pulumi:Stack"},
        {"urn": "urn:provider", "type": "pulumi:providers:gcp", "custom": True},
    ]
    (registration,) = EngineState.read({"resources": [*others, row()]}).registrations()

    assert (registration.name, registration.urn, registration.custom) == ("jobs", URN, True)
    assert registration.inputs == {"name": "jobs", "retained": 7, "key": "sesame"}
    assert registration.secrets == {"key"}
    assert registration.dependencies == ("urn:a", "urn:b")
    assert registration.property_dependencies == {"key": ("urn:a",)}
    assert registration.protect


def test_the_stacks_outputs_are_read_and_which_of_them_are_secret() -> None:
    outputs = {"topic": "jobs", "key": {SIGNATURE: SECRET, "plaintext": json.dumps("sesame")}}
    state = EngineState.read({"resources": [{"urn": STACK, "type": "pulumi:pulumi:Stack", "outputs": outputs}, row()]})

    assert state.outputs == {"topic": "jobs", "key": "sesame"}
    assert state.secret_outputs == {"key"}


def test_a_stack_without_resources_has_none() -> None:
    assert EngineState.read(None).registrations() == ()
    assert EngineState.read({"resources": None}).registrations() == ()


def test_a_loaded_world_is_completed_with_what_only_the_engine_knows(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    create(world, TOPIC, {"name": "jobs"})
    create(world, TOPIC, {"name": "other"})

    EngineState.read({"resources": [row()]}).complete(world)

    jobs, other = world.find(TOPIC, "jobs"), world.find(TOPIC, "other")
    assert jobs is not None
    assert other is not None
    assert (jobs.dependencies, jobs.protect) == (("urn:a", "urn:b"), True)
    assert "key" not in jobs.inputs, "only what the world knows to be secret is taken over"
    assert (other.dependencies, other.protect) == ((), False)
