"""What the platform does with a resource type beyond the shape of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.provider.faults import Failure
from sandbox.world import ACCOUNT, Resource, World

Inputs = Mapping[str, Any]
"""Checked inputs: plain values, camelCase keys."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a resource is about to be named.

    Attributes:
        logical: name in the program.
        before: the world of the last successful run; what it holds keeps its name.
        now: the world that this run has filled so far.
    """

    logical: str
    before: World
    now: World


def _unchanged(inputs: Inputs) -> dict[str, Any]:
    return dict(inputs)


def _no_failures(_: Inputs) -> Iterator[Failure]:
    return iter(())


def _nothing_missing(_: Inputs, __: World) -> Iterator[Failure]:
    return iter(())


def _as_computed(_: Resource, outputs: dict[str, Any]) -> dict[str, Any]:
    return outputs


def _no_guard(_: Resource) -> str | None:
    return None


def _not_used(_: Resource, __: World) -> str | None:
    return None


def _goes(_: Resource) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One resource type.

    Attributes:
        name: physical name, unique within the type.
        computed: outputs that the platform adds, `id` among them.
        defaults: inputs with the platform's defaults filled in.
        rules: inputs that the platform refuses whatever else exists.
        missing: things that the inputs name and that do not exist.
        immutable: inputs whose change replaces the resource.
        guard: why the resource must not be deleted; None where it may.
        user: what else exists and uses the resource, which cannot be deleted until that is gone; None for nothing.
        stays: whether the resource exists on when its stack has let go of it.
        revised: outputs after an update, from the resource before it and the outputs that `computed` gave.
        auto_name: the input that the platform's provider fills from the logical name where it is absent; "" for none.
        retires_name: True where the platform keeps the name of a deleted resource for days.
    """

    name: Callable[[Inputs, Surroundings], str]
    computed: Callable[[str, Inputs, World], dict[str, Any]]
    defaults: Callable[[Inputs], dict[str, Any]] = _unchanged
    rules: Callable[[Inputs], Iterator[Failure]] = _no_failures
    missing: Callable[[Inputs, World], Iterator[Failure]] = _nothing_missing
    immutable: frozenset[str] = frozenset()
    guard: Callable[[Resource], str | None] = _no_guard
    user: Callable[[Resource, World], str | None] = _not_used
    stays: Callable[[Resource], bool] = _goes
    revised: Callable[[Resource, dict[str, Any]], dict[str, Any]] = _as_computed
    auto_name: str = ""
    retires_name: bool = False


def account_missing(email: str, path: str, world: World) -> Iterator[Failure]:
    """A service account of this project that is not declared."""
    own = f"@{world.project}.iam.gserviceaccount.com"
    if email.endswith(own) and world.find(ACCOUNT, email) is None:
        yield Failure(path, f"service account {email} does not exist")
