"""The deployments of a rotation of the signing key: every service knows both keys for as long as either is in use.

Does not cover the jobs that are under way meanwhile (tests/flow/spine/test_key_rotation.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID
from sandbox.engine.deployment import Deployment
from sandbox.world import SERVICE
from tests.support.job_keys import pair
from tests.support.stacks import WHOLE, realised

OLD, NEW = pair(), pair("next")
SERVICES: Final = ("holdfast-api", "holdfast-execution", "holdfast-executor")
NEW_ID: Final = "backend-es256-v2"


def keys_of(stack: Deployment, service: str) -> dict[str, str]:
    """The variables of a service that are about keys; of a secret, its version."""
    resource = stack.world.find(SERVICE, service)
    assert resource is not None
    envs = resource.inputs["template"]["containers"][0]["envs"]
    return {
        env["name"]: env.get("value") or env["valueSource"]["secretKeyRef"]["version"]
        for env in envs
        if env["name"].startswith("BACKEND_")
    }


def short(urns: tuple[str, ...]) -> list[str]:
    return sorted(urn.rpartition("::")[2] for urn in urns)


def told(current: str, kid: str, previous: str = "", previous_id: str = "") -> dict[str, str]:
    names = ("BACKEND_PUB", "BACKEND_KID", "BACKEND_PREVIOUS_PUB", "BACKEND_PREVIOUS_KID")
    return {name: value for name, value in zip(names, (current, kid, previous, previous_id), strict=True) if value}


def test_a_rotation_updates_the_services_alone_and_breaks_no_rule_on_its_way(tmp_path: Path) -> None:
    """BR-126: a public key is no secret. BR-128: the new version is there before the old one goes."""
    realised(tmp_path, **WHOLE)
    known = realised(tmp_path, **WHOLE, previous_signing_public_key=NEW.public, previous_signing_key_id=NEW_ID)
    rotated: dict[str, Any] = {"signing_key": NEW.private, "signing_key_id": NEW_ID}
    signing = realised(
        tmp_path, **WHOLE, **rotated,
        previous_signing_public_key=OLD.public, previous_signing_key_id=DEFAULT_KEY_ID,
    )  # fmt: skip
    alone = realised(tmp_path, **WHOLE, **rotated)

    updated = ["api-service", "execution-service", "executor-service"]
    for stack, versions in ((known, []), (signing, ["signing-version"]), (alone, [])):
        assert short(stack.updated) == updated
        assert short(stack.created) == short(stack.deleted) == versions
        assert stack.warnings == ()
    assert [stack.outputs["signing_public_key"] for stack in (known, signing)] == [OLD.public, NEW.public]
    for stack, expected, version in (
        (known, told(OLD.public, DEFAULT_KEY_ID, NEW.public, NEW_ID), "1"),
        (signing, told(NEW.public, NEW_ID, OLD.public, DEFAULT_KEY_ID), "2"),
        (alone, told(NEW.public, NEW_ID), "2"),
    ):
        api, *others = (keys_of(stack, service) for service in SERVICES)
        assert others == [expected, expected]
        assert api == {**expected, "BACKEND_KEY": version}, "it alone signs"
