"""Check, diff, create, update, delete and invoke, as an engine calls them, over a world."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox.provider.behaviour import Inputs, Surroundings
from sandbox.provider.behaviours import behaviour_of
from sandbox.provider.faults import Failure, ProviderRefused
from sandbox.provider.fingerprint import fingerprint, recognises
from sandbox.provider.schema import arguments_of, fields_of
from sandbox.provider.shape import has_unknown_structure, shape_failures
from sandbox.provider.unknown import UNKNOWN
from sandbox.world import Resource, World


@dataclass(frozen=True, slots=True)
class Declared:
    """A checked resource on its way into the world.

    Attributes:
        type: type token.
        name: physical name, see `identify`.
        urn: where the program declares it.
        inputs: what `check` gave.
        secrets: top-level inputs that hold a secret.
        dependencies: URNs of the resources that must outlive it.
        protect: True refuses to delete or replace it.
    """

    type: str
    name: str
    urn: str
    inputs: Inputs = field(repr=False)
    secrets: frozenset[str] = frozenset()
    dependencies: tuple[str, ...] = ()
    protect: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What an update would change.

    Attributes:
        changes: top-level inputs that differ.
        replaces: those of them that the platform cannot change in place.
    """

    changes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


def check(
    type_token: str, inputs: Mapping[str, Any], *, logical: str = "", config: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[Failure]]:
    """Inputs with the provider's and the platform's defaults filled in, and everything that would be refused.

    Of inputs that a preview does not know yet only the rest is checked, and nothing is filled in beside a whole list or
    mapping that is not known.

    Args:
        type_token: resource type.
        inputs: plain values.
        logical: name in the program, from which an absent physical name is made.
        config: the provider's own settings; `project` and `region` fill inputs of that name.

    Raises:
        UnknownResourceTypeError: the SDK has no such type.
        ProviderRefused: a type that must not be used.
    """
    behaviour = behaviour_of(type_token)
    filled = given(type_token, inputs, logical=logical, config=config)
    failures = list(shape_failures(type_token, filled))
    if failures or has_unknown_structure(type_token, filled):
        return filled, failures
    filled = behaviour.defaults(filled)
    return filled, list(behaviour.rules(filled))


def given(
    type_token: str, inputs: Mapping[str, Any], *, logical: str = "", config: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Inputs with what the provider itself adds to them, before the platform fills in anything; as for `check`.

    Raises:
        UnknownResourceTypeError: the SDK has no such type.
        ProviderRefused: a type that must not be used.
    """
    behaviour = behaviour_of(type_token)
    known = fields_of(arguments_of(type_token)).types
    complete = {name: value for name, value in (config or {}).items() if name in known} | dict(inputs)
    if behaviour.auto_name and not complete.get(behaviour.auto_name):
        suffix = hashlib.sha256(f"{type_token} {logical}".encode()).hexdigest()[:7]
        complete[behaviour.auto_name] = f"{logical}-{suffix}"
    return complete


def identify(type_token: str, inputs: Inputs, around: Surroundings) -> str:
    """Physical name that the resource has, or will get; its logical one where a whole part of it is not known yet."""
    if has_unknown_structure(type_token, inputs):
        return around.logical
    return behaviour_of(type_token).name(inputs, around)


def diff(before: Resource, declared: Declared) -> Difference:
    """What differs between a resource and its new declaration; secrets are compared by fingerprint."""
    secrets = before.secrets | declared.secrets
    old = {name: value for name, value in before.inputs.items() if name not in secrets}
    new = {name: value for name, value in declared.inputs.items() if name not in secrets}
    changes = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if before.secrets != declared.secrets or not recognises(before.fingerprint, declared.inputs, declared.secrets):
        changes |= secrets
    immutable = behaviour_of(before.type).immutable
    return Difference(tuple(sorted(changes)), tuple(sorted(changes & immutable)))


def create(world: World, declared: Declared) -> Resource:
    """Adds a resource to the world.

    Raises:
        ProviderRefused: its name is taken, or something that it names does not exist.
    """
    if world.find(declared.type, declared.name) is not None:
        raise ProviderRefused(f"{declared.type} {declared.name} already exists; two resources cannot share its name")
    if world.is_retired(declared.type, declared.name):
        raise ProviderRefused(
            f"{declared.type} {declared.name} was deleted, and its name cannot be used again for a week; use another"
        )
    outputs = behaviour_of(declared.type).computed(declared.name, declared.inputs, world)
    return _put(world, declared, {**declared.inputs, **outputs})


def update(world: World, before: Resource, declared: Declared) -> Resource:
    """Puts the new declaration of a resource into the world.

    Raises:
        ProviderRefused: something that it names does not exist.
    """
    behaviour = behaviour_of(declared.type)
    outputs = {**declared.inputs, **behaviour.computed(declared.name, declared.inputs, world)}
    return _put(world, declared, behaviour.revised(before, outputs))


def planned(world: World, declared: Declared, before: Resource | None) -> dict[str, Any]:
    """Outputs as far as they are known before a creation or update; the world stays as it is.

    Args:
        world: what exists.
        declared: what shall exist; inputs may be unknown.
        before: the resource to update; None creates.
    """
    if has_unknown_structure(declared.type, declared.inputs):
        return dict(declared.inputs)
    behaviour = behaviour_of(declared.type)
    computed = behaviour.computed(declared.name, declared.inputs, world)
    if before is None:
        return {**declared.inputs, **dict.fromkeys(computed, UNKNOWN)}
    after = behaviour.revised(before, {**declared.inputs, **computed})
    stay = {name: value for name, value in after.items() if before.outputs.get(name) == value}
    return {**dict.fromkeys(after, UNKNOWN), **stay, **declared.inputs}


def _put(world: World, declared: Declared, outputs: dict[str, Any]) -> Resource:
    missing = list(behaviour_of(declared.type).missing(declared.inputs, world))
    if missing:
        raise ProviderRefused("; ".join(str(failure) for failure in missing))
    resource = Resource(
        type=declared.type,
        name=declared.name,
        urn=declared.urn,
        inputs=declared.inputs,
        outputs=outputs,
        secrets=declared.secrets,
        fingerprint=fingerprint(declared.inputs, declared.secrets),
        dependencies=declared.dependencies,
        protect=declared.protect,
    )
    world.put(resource)
    return resource


def keep(world: World, before: Resource, declared: Declared) -> Resource:
    """Carries an unchanged resource over; only what the program says about it, not what it is, may have changed."""
    resource = replace(
        before,
        urn=declared.urn,
        inputs=declared.inputs,
        outputs={**before.outputs, **declared.inputs},
        dependencies=declared.dependencies,
        protect=declared.protect,
    )
    world.put(resource)
    return resource


def retire(world: World, resource: Resource) -> None:
    """Keeps the name of a deleted resource taken, where the platform does."""
    if behaviour_of(resource.type).retires_name:
        world.retire(resource.type, resource.name)


def delete_refusal(world: World, resource: Resource) -> str | None:
    """Why the platform refuses to delete a resource; None where it does not.

    Args:
        world: what exists besides, without what is deleted before it.
        resource: what is to be deleted.
    """
    behaviour = behaviour_of(resource.type)
    if (user := behaviour.user(resource, world)) is not None:
        return f"{user} still uses it, and has to go first"
    return behaviour.guard(resource)


def stays(resource: Resource) -> bool:
    """Whether a resource exists on when its stack has let go of it."""
    return behaviour_of(resource.type).stays(resource)


def invoke(world: World, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Answers a function of the provider.

    Raises:
        ProviderRefused: the stand-in does not answer it, or the project is another one.
    """
    project = arguments.get("projectId") or arguments.get("project") or world.project
    if project != world.project:
        raise ProviderRefused(f"{token}: project {project} is not this world's project {world.project}")
    match token:
        case "gcp:organizations/getProject:getProject":
            return {"id": f"projects/{project}", "projectId": project, "number": world.number, "name": project}
        case "gcp:storage/getProjectServiceAccount:getProjectServiceAccount":
            email = f"service-{world.number}@gs-project-accounts.iam.gserviceaccount.com"
            return {"id": email, "emailAddress": email, "member": f"serviceAccount:{email}", "project": project}
        case _:
            raise ProviderRefused(f"{token}: the stand-in provider does not answer this function")
