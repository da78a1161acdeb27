"""Secrets and their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.fingerprint import recognises
from sandbox.provider.limits import matches
from sandbox.world import SECRET, SECRET_VERSION, Resource, World, short_name

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
_DATA_MAX: Final = 65_536
"""Bytes: largest secret value."""
SECRET_INPUTS: Final = frozenset({"secretData"})
"""Inputs of a version that are secret whether or not the program marks them."""


def _secret_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["secretId"])


def _secret_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "secretId", _ID, "1 to 255 letters, digits, hyphens and underscores")
    if len([way for way in ("auto", "userManaged") if inputs["replication"].get(way) is not None]) != 1:
        yield Failure("replication", "exactly one of auto and userManaged is needed")


def _secret_computed(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    return {
        "id": f"projects/{inputs['project']}/secrets/{name}",
        "name": f"projects/{world.number}/secrets/{name}",
        "effectiveLabels": labels,
        "pulumiLabels": labels,
    }


def _secret_guard(resource: Resource) -> str | None:
    return "deletionProtection is true; deploy it as false first" if resource.inputs["deletionProtection"] else None


def _version_name(inputs: Inputs, around: Surroundings) -> str:
    """The platform numbers versions; a value that is already there keeps its number."""
    secret = short_name(inputs["secret"])
    before = _versions(around.before, secret)
    for number, version in before.items():
        if recognises(version.fingerprint, inputs, SECRET_INPUTS):
            return f"{secret}/versions/{number}"
    highest = max([*before, *_versions(around.now, secret)], default=0)
    return f"{secret}/versions/{highest + 1}"


def _versions(world: World, secret: str) -> dict[int, Resource]:
    resources = [r for r in world.of_type(SECRET_VERSION) if r.name.startswith(f"{secret}/versions/")]
    return {int(short_name(resource.name)): resource for resource in resources}


def _version_rules(inputs: Inputs) -> Iterator[Failure]:
    data = inputs.get("secretData")
    if not data:
        yield Failure("secretData", "is missing or empty; a version needs a value")
    elif len(data.encode()) > _DATA_MAX:
        yield Failure("secretData", f"is larger than {_DATA_MAX} bytes")


def _version_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    if world.find(SECRET, inputs["secret"]) is None:
        yield Failure("secret", f"secret {inputs['secret']} does not exist")


def _version_computed(name: str, _: Inputs, world: World) -> dict[str, Any]:
    full = f"projects/{world.number}/secrets/{name}"
    return {"id": full, "name": full, "version": short_name(name)}


BEHAVIOURS: Final = {
    SECRET: Behaviour(
        name=_secret_name,
        auto_name="secretId",
        computed=_secret_computed,
        defaults=lambda inputs: {"deletionProtection": False, **inputs},
        rules=_secret_rules,
        immutable=frozenset({"secretId", "replication", "project"}),
        guard=_secret_guard,
    ),
    SECRET_VERSION: Behaviour(
        name=_version_name,
        computed=_version_computed,
        defaults=lambda inputs: {"enabled": True, **inputs},
        rules=_version_rules,
        missing=_version_missing,
        immutable=frozenset({"secret", "secretData"}),
    ),
}
