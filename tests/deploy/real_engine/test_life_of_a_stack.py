"""Each stack of the repository on the real engine, from its first preview to its end.

Does not cover Google's own provider, nor a state that several people share.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.pulumi_cli import PulumiEngine
from sandbox.world import DATABASE, SERVICE, SUBSCRIPTION
from tests.support.real_engine import comparable, embedded, engine, saved_world, short

INVOKER: Final = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"


def up_like_here(real: PulumiEngine, folder: Path, stack: str, **changes: Any) -> Deployment:
    """Deploys, and compares with what the embedded engine makes of the same values."""
    done, here = real.up(), embedded(folder, stack, **changes)
    assert comparable(done.world) == comparable(here.world), "one program, one world"
    assert (dict(done.outputs), done.secret_outputs) == (dict(here.outputs), here.secret_outputs)
    return done


def test_a_stack_lives_from_its_first_preview_to_its_end(tmp_path: Path) -> None:
    real = engine(tmp_path / "real", "local")

    planned = real.preview()
    assert len(saved_world(real)) == 0, "a preview changes nothing"
    first = up_like_here(real, tmp_path / "embedded", "local")
    assert short(planned.urns("create")) == short(first.created)
    assert (first.updated, first.replaced, first.deleted, first.unchanged) == ((), (), (), ())

    real.destroy()
    assert len(saved_world(real)) == 0


def test_one_changed_timeout_updates_what_depends_on_it_and_a_repeat_nothing(tmp_path: Path) -> None:
    """The services refer to a secret that an earlier run made."""
    first = up_like_here(engine(tmp_path / "real", "dev"), tmp_path / "embedded", "dev")
    changed: dict[str, Any] = {"worker": {"run_timeout_seconds": 500}}
    real = engine(tmp_path / "real", "dev", **changed)

    planned = real.preview()
    done = up_like_here(real, tmp_path / "embedded", "dev", **changed)
    again = real.up()

    assert short(planned.urns("update")) == short(done.updated) == ["api-service", "execution-service"]
    assert {step.changed for step in planned.steps if step.operation == "update"} == {("template",)}
    assert (done.created, done.replaced, done.deleted) == ((), (), ())
    assert short(again.unchanged) == short(first.created)
    assert (again.created, again.updated, again.replaced, again.deleted) == ((), (), (), ())


def test_what_is_changed_behind_the_engines_back_is_seen_by_a_refresh_and_put_right_by_the_next_up(
    tmp_path: Path,
) -> None:
    real = engine(tmp_path, "dev")
    before = comparable(real.up().world)
    world = saved_world(real)
    subscription = world.find(SUBSCRIPTION, "holdfast-execution-push")
    assert subscription is not None
    drift = {"ackDeadlineSeconds": 10}
    inputs, outputs = {**subscription.inputs, **drift}, {**subscription.outputs, **drift}
    world.put(replace(subscription, inputs=inputs, outputs=outputs))
    gone = world.of_type(INVOKER)[0]
    world.remove(gone.type, gone.name)
    world.save()

    seen = real.refresh()
    assert short(seen.urns("update")) == ["execution-push"]
    assert short(seen.urns("delete")) == short([gone.urn])

    righted = real.up()
    assert short(righted.created) == short([gone.urn])
    assert short(righted.updated) == ["execution-push"]
    assert comparable(righted.world) == before


def test_a_protected_stack_refuses_its_end_and_keeps_what_holds_records(tmp_path: Path) -> None:
    """BR-119."""
    real = engine(tmp_path / "real", "prod")
    up_like_here(real, tmp_path / "embedded", "prod")

    with pytest.raises(DeploymentFailed) as caught:
        real.destroy()

    assert any("deletionProtection is true" in line for line in caught.value.lines), caught.value.lines
    assert saved_world(real).of_type(DATABASE)
    assert "holdfast-api" in {one.name for one in saved_world(real).of_type(SERVICE)}
