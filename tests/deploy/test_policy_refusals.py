"""The policy pack on the embedded engine: what breaks a mandatory rule never comes to be."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.registration import Registration, without
from sandbox.world import SUBSCRIPTION, World
from tests.support.local import local_stack
from tests.support.stacks import realised

INVOKER = ("gcp:cloudrunv2/serviceIamMember:ServiceIamMember", "execution-push-invokes")


def ordered(registration: Registration) -> Registration:
    """With a filter on the execution subscription, which a rule advises against."""
    if (registration.type, registration.name) == (SUBSCRIPTION, "execution-push"):
        return replace(registration, inputs={**registration.inputs, "filter": "attributes.kind = 'a'"})
    return registration


async def test_the_local_stack_does_not_start_on_what_breaks_a_rule(tmp_path: Path) -> None:
    with pytest.raises(DeploymentFailed) as caught:
        async with local_stack(tmp_path, mutate=without([INVOKER])):
            pass

    (line,) = caught.value.lines
    assert line == (
        f"execution-push ({SUBSCRIPTION}): I03: its push identity has no unconditional roles/run.invoker on the "
        "service. Otherwise every push is answered 403, and every message becomes a dead letter. "
        "Grant roles/run.invoker on the service to the push identity."
    )
    assert await asyncio.to_thread(World.load, tmp_path) is None


def test_what_a_rule_only_advises_is_a_warning(tmp_path: Path) -> None:
    (warning,) = realised(tmp_path, ordered).warnings
    assert warning.startswith(f"execution-push ({SUBSCRIPTION}): D11: ")


def test_what_is_there_stays_as_it_was_when_a_rule_refuses_its_successor(tmp_path: Path) -> None:
    before = realised(tmp_path).world
    with pytest.raises(DeploymentFailed):
        realised(tmp_path, without([INVOKER]))
    kept = World.load(tmp_path)
    assert kept is not None
    assert {one.urn for one in kept} == {one.urn for one in before}
