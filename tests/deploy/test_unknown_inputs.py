"""Whatever part of a resource a preview does not know yet, the provider refuses nothing for it and answers the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.engine.deployment import Deployment
from sandbox.provider import provider
from sandbox.provider.behaviour import Surroundings
from sandbox.provider.unknown import UNKNOWN
from sandbox.world import Resource, World
from tests.support.stacks import NUMBER, PROJECT, REGION, WHOLE, realised


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("whole"), **WHOLE)


def with_one_unknown(value: Any) -> Iterator[Any]:
    """The value with one of its parts, at any depth, not known."""
    yield UNKNOWN
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from ({**value, name: changed} for changed in with_one_unknown(member))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in with_one_unknown(member))


def planned(inputs: dict[str, Any], resource: Resource, before: Resource | None, world: World) -> dict[str, Any]:
    """Outputs of a previewed creation or update; a check that refuses them fails."""
    filled, failures = provider.check(resource.type, inputs, logical="it")
    assert failures == [], f"{resource.type}: {'; '.join(map(str, failures))}"
    name = provider.identify(resource.type, filled, Surroundings("it", before=world, now=world))
    shall = provider.Declared(resource.type, name, resource.urn, filled, resource.secrets)
    if before is not None:
        provider.diff(before, shall)
    return provider.planned(world, shall, before)


def test_any_part_of_any_resource_may_be_unknown(whole: Deployment, tmp_path: Path) -> None:
    """BR-122."""
    empty = World(PROJECT, NUMBER, REGION, tmp_path)
    resources = {one.urn: one for one in whole.world}
    tried = 0
    for one in whole.registrations:
        resource = resources.get(one.urn)
        if resource is None:
            continue
        for inputs in itertools.islice(with_one_unknown(dict(one.inputs)), 1, None):
            assert planned(inputs, resource, None, empty).keys() >= inputs.keys()
            planned(inputs, resource, resource, whole.world)
            tried += 1
    assert tried > 800
