"""Inputs that the stand-in provider takes, to be spoiled one at a time."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from sandbox.provider import provider
from sandbox.provider.behaviour import Surroundings
from sandbox.world import ACCOUNT, TOPIC, Resource, World

PROJECT = "p-test"
CONFIG = {"project": PROJECT, "region": "europe-west1"}
IMAGE = f"runtime@sha256:{'1' * 64}"

SERVICE_INPUTS: dict[str, Any] = {
    "name": "worker",
    "location": "europe-west1",
    "template": {
        "timeout": "600s",
        "containers": [{"image": IMAGE, "envs": [{"name": "LOG_LEVEL", "value": "info"}]}],
    },
}
SUBSCRIPTION_INPUTS: dict[str, Any] = {
    "name": "jobs-push",
    "topic": f"projects/{PROJECT}/topics/jobs",
    "ackDeadlineSeconds": 600,
    "pushConfig": {
        "pushEndpoint": "https://worker.example",
        "oidcToken": {"serviceAccountEmail": f"push-id@{PROJECT}.iam.gserviceaccount.com"},
    },
    "retryPolicy": {"minimumBackoff": "10s"},
    "deadLetterPolicy": {"deadLetterTopic": f"projects/{PROJECT}/topics/dead"},
}


def changed(inputs: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted path replaced; `...` removes it."""
    copy = deepcopy(inputs)
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = copy
    for step in parents:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return copy


def failures(type_: str, inputs: dict[str, Any]) -> list[str]:
    """What a check refuses, as text."""
    return [str(failure) for failure in provider.check(type_, inputs, logical="it", config=CONFIG)[1]]


def checked(type_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Inputs with defaults; the check must pass."""
    filled, found = provider.check(type_, inputs, logical="it", config=CONFIG)
    assert found == []
    return filled


def new_world(tmp_path: Path) -> World:
    """A world without resources."""
    return World(PROJECT, "123456789012", "europe-west1", tmp_path)


def declared(
    type_: str, inputs: dict[str, Any], world: World, *, secrets: frozenset[str] = frozenset()
) -> provider.Declared:
    """A checked declaration, named."""
    filled = checked(type_, inputs)
    name = provider.identify(type_, filled, Surroundings("it", before=world, now=world))
    return provider.Declared(type_, name, f"urn::{type_}::{name}", filled, secrets)


def create(world: World, type_: str, inputs: dict[str, Any], *, secrets: frozenset[str] = frozenset()) -> Resource:
    """Checks and creates a resource."""
    return provider.create(world, declared(type_, inputs, world, secrets=secrets))


def furnished(tmp_path: Path) -> World:
    """A world with what SUBSCRIPTION_INPUTS name."""
    world = new_world(tmp_path)
    create(world, TOPIC, {"name": "jobs"})
    create(world, TOPIC, {"name": "dead"})
    create(world, ACCOUNT, {"accountId": "push-id"})
    return world
