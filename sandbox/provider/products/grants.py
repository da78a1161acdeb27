"""Additive grants: one member, one role, one target. The authoritative forms have no behaviour here on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings, account_missing
from sandbox.provider.faults import Failure
from sandbox.provider.limits import matches
from sandbox.world import ACCOUNT, MEMBER_TYPES, SECRET, SERVICE, SUBSCRIPTION, TOPIC, Kind, World, short_name

_MEMBER: Final = re.compile(
    r"(?:serviceAccount|user|group|domain|principal|principalSet):\S+|all(?:Authenticated)?Users"
)
_MEMBER_RULE: Final = "a member, like serviceAccount:EMAIL"
_ROLE: Final = re.compile(r"(?:(?:projects|organizations)/[^/]+/)?roles/[A-Za-z0-9_.]+")
_ROLE_RULE: Final = "a role, like roles/run.invoker"
_TARGETS: Final = {
    Kind.SERVICE: SERVICE,
    Kind.TOPIC: TOPIC,
    Kind.SUBSCRIPTION: SUBSCRIPTION,
    Kind.ACCOUNT: ACCOUNT,
    Kind.SECRET: SECRET,
}
"""Kind of a target -> its resource type; a bucket may belong to another stack and is not looked up."""
_SERVICE_ACCOUNT: Final = "serviceAccount:"


def _name(target: str, inputs: Inputs, _: Surroundings) -> str:
    return f"{short_name(str(inputs[target]))} {inputs['role']} {inputs['member']}"


def _rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "member", _MEMBER, _MEMBER_RULE)
    yield from matches(inputs, "role", _ROLE, _ROLE_RULE)
    member = str(inputs["member"])
    if (
        member.startswith(_SERVICE_ACCOUNT)
        and member != _SERVICE_ACCOUNT + member.removeprefix(_SERVICE_ACCOUNT).lower()
    ):
        yield Failure("member", f"{member!r} is refused; the platform stores e-mails in lower case, so write it so")


def _missing(kind: Kind, target: str, inputs: Inputs, world: World) -> Iterator[Failure]:
    member = str(inputs["member"])
    if member.startswith(_SERVICE_ACCOUNT):
        yield from account_missing(member.removeprefix(_SERVICE_ACCOUNT), "member", world)
    wanted = str(inputs[target])
    if kind is Kind.PROJECT and wanted != world.project:
        yield Failure(target, f"project {wanted} is not this world's project {world.project}")
    elif kind in _TARGETS and world.find(_TARGETS[kind], wanted) is None:
        yield Failure(target, f"{kind} {wanted} does not exist")


def _computed(target: str, name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    return {"id": f"{inputs[target]}/{inputs['role']}/{inputs['member']}", "etag": f"etag-{name}"}


def _behaviour(kind: Kind, target: str) -> Behaviour:
    name: Callable[[Inputs, Surroundings], str] = partial(_name, target)
    missing: Callable[[Inputs, World], Iterator[Failure]] = partial(_missing, kind, target)
    computed: Callable[[str, Inputs, World], dict[str, Any]] = partial(_computed, target)
    immutable = frozenset({target, "role", "member", "condition", "project", "location"})
    return Behaviour(name=name, computed=computed, rules=_rules, missing=missing, immutable=immutable)


BEHAVIOURS: Final = {type_: _behaviour(kind, target) for type_, (kind, target) in MEMBER_TYPES.items()}
