"""Repositories of images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, lasts, matches, one_of
from sandbox.world import Resource, World

REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"

_ID: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_ID_RULE: Final = "1 to 63 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_FORMATS: Final = ("DOCKER", "MAVEN", "NPM", "PYTHON", "APT", "YUM", "GO", "GENERIC", "KFP")


def _name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["repositoryId"])


def _rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "repositoryId", _ID, _ID_RULE)
    yield from one_of(inputs, "format", _FORMATS)
    yield from one_of(inputs, "deletionPolicy", ("ABANDON", "DELETE", "PREVENT"))
    yield from one_of(inputs, "vulnerabilityScanningConfig.enablementConfig", ("INHERITED", "DISABLED"))
    if at(inputs, "dockerConfig") and at(inputs, "format") not in {None, "DOCKER"}:
        yield Failure("dockerConfig", f"is for format DOCKER, not {inputs['format']}")
    ids = [policy["id"] for policy in inputs.get("cleanupPolicies", [])]
    if len(set(ids)) != len(ids):
        yield Failure("cleanupPolicies", "has two policies of one id")
    for index, policy in enumerate(inputs.get("cleanupPolicies", [])):
        yield from (
            Failure(f"cleanupPolicies[{index}].{failure.path}", failure.reason) for failure in _policy_rules(policy)
        )


def _policy_rules(policy: Inputs) -> Iterator[Failure]:
    yield from one_of(policy, "action", ("DELETE", "KEEP"))
    yield from one_of(policy, "condition.tagState", ("TAGGED", "UNTAGGED", "ANY"))
    for bound in ("condition.olderThan", "condition.newerThan"):
        yield from lasts(policy, bound, 1, float("inf"))
    given = [way for way in ("condition", "mostRecentVersions") if policy.get(way)]
    if len(given) != 1:
        yield Failure("condition", "exactly one of condition and mostRecentVersions is needed")
    elif at(policy, "action") == "DELETE" and given == ["mostRecentVersions"]:
        yield Failure("mostRecentVersions", "is for KEEP only")


def _computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    return {
        "id": f"projects/{inputs['project']}/locations/{inputs['location']}/repositories/{name}",
        "name": name,
        "registryUri": f"{inputs['location']}-docker.pkg.dev/{inputs['project']}/{name}",
        "effectiveLabels": labels,
        "pulumiLabels": labels,
    }


def _guard(resource: Resource) -> str | None:
    if resource.inputs["deletionPolicy"] == "PREVENT":
        return "deletionPolicy is PREVENT; deploy it as DELETE first"
    return None


BEHAVIOURS: Final = {
    REPOSITORY: Behaviour(
        name=_name,
        computed=_computed,
        defaults=lambda inputs: {
            "mode": "STANDARD_REPOSITORY",
            "cleanupPolicyDryRun": False,
            "deletionPolicy": "DELETE",
            **inputs,
        },
        rules=_rules,
        immutable=frozenset({"repositoryId", "location", "project", "format", "mode", "kmsKeyName"}),
        guard=_guard,
    ),
}
