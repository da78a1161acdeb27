"""Each stack of the repository on the real engine, from its first preview to its end.

Does not cover Google's own provider, nor a state that several people share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from cli.revisions import unready
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.pulumi_cli import PulumiEngine, policy_packs
from sandbox.world import DATABASE, SERVICE, SUBSCRIPTION, World
from tests.support.exported_states import analysed, broken, exported, judged
from tests.support.real_engine import ROOT, comparable, embedded, engine, saved_world, short

INVOKER: Final = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
SHORTER: Final[Mapping[str, Any]] = {"worker": {"run_timeout_seconds": 500}}
STACKS: Final = ("dev", "local", "prod")
BROKEN_RULES: Final = {
    ("T01", "execution-service"),
    ("T05", "execution-push"),
    ("T06", "execution-push"),
    ("T12", "execution-push"),
    ("T15", "execution-push"),
    ("D07", "execution-dead-letters"),
    ("R01", "api-service"),
}
"""What `broken` states break in every stack; the shorter backoff of one breaks another rule as well."""


@dataclass(frozen=True)
class Life:
    """One stack in one folder, on both engines."""

    folder: Path
    stack: str

    def engine(self, **changes: Any) -> PulumiEngine:
        """The real engine, with the policy pack."""
        return replace(engine(self.folder / "real", self.stack, **changes), policy_packs=policy_packs(ROOT))

    def up(self, **changes: Any) -> Deployment:
        """Deploys, and compares with what the embedded engine makes of the same values."""
        done, here = self.engine(**changes).up(), embedded(self.folder / "embedded", self.stack, **changes)
        assert comparable(done.world) == comparable(here.world), "one program, one world"
        assert (dict(done.outputs), done.secret_outputs) == (dict(here.outputs), here.secret_outputs)
        assert (short(done.created), short(done.updated)) == (short(here.created), short(here.updated))
        return done


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_lives_from_its_first_preview_to_its_end(tmp_path: Path, stack: str) -> None:
    """BR-119: what is protected must be let go of before it can end."""
    life = Life(tmp_path, stack)

    planned = life.engine().preview()
    assert planned.violations == ()
    assert len(saved_world(life.engine())) == 0, "a preview changes nothing"
    first = life.up()
    assert short(planned.urns("create")) == short(first.created)
    assert (first.updated, first.replaced, first.deleted, first.unchanged) == ((), (), (), ())
    _analyse(life.engine())

    shorter = life.up(**SHORTER)
    assert set(short(shorter.updated)) == {"api-service", "execution-service"}
    again = life.engine(**SHORTER).up()
    assert short(again.unchanged) == short(first.created)

    gone = _meddle(saved_world(life.engine()))
    seen = life.engine(**SHORTER).refresh()
    assert short(seen.urns("update")) == ["execution-push"]
    assert short(seen.urns("delete")) == short([gone])
    righted = life.engine(**SHORTER).up()
    assert (short(righted.created), short(righted.updated)) == (short([gone]), ["execution-push"])
    assert comparable(righted.world) == comparable(again.world)

    _end(life.engine(**SHORTER), life.engine(**SHORTER, deletion_protection="false"))


def _analyse(built: PulumiEngine) -> None:
    """The state alone has the verdict of the preview, and a broken one that of the rules; its services are ready."""
    state = exported(built)
    assert unready(json.dumps(state)) == [], "BR-136"
    assert analysed(built, state) == []
    found = analysed(built, broken(state))
    assert found == judged(broken(state))
    assert {(one.policy, one.urn.rpartition("::")[2]) for one in found} >= BROKEN_RULES


def _meddle(world: World) -> str:
    """Changes a deadline and takes a grant away behind the engine's back; the URN of the grant."""
    subscription = world.find(SUBSCRIPTION, "holdfast-execution-push")
    assert subscription is not None
    drift = {"ackDeadlineSeconds": 10}
    inputs, outputs = {**subscription.inputs, **drift}, {**subscription.outputs, **drift}
    world.put(replace(subscription, inputs=inputs, outputs=outputs))
    gone = world.of_type(INVOKER)[0]
    world.remove(gone.type, gone.name)
    world.save()
    return gone.urn


def _end(real: PulumiEngine, unprotected: PulumiEngine) -> None:
    if real.config["holdfast:deletion_protection"] == "true":
        with pytest.raises(DeploymentFailed) as caught:
            real.destroy()
        assert any("deletionProtection is true" in line for line in caught.value.lines), caught.value.lines
        assert saved_world(real).of_type(DATABASE)
        assert "holdfast-api" in {one.name for one in saved_world(real).of_type(SERVICE)}
        # The pack would refuse this: what production runs on stays protected.
        replace(unprotected, policy_packs=()).up()
    unprotected.destroy()
    assert len(saved_world(real)) == 0
