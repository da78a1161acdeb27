"""One resource as the program registers it, before the provider has seen it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ROOT_TYPE: Final = "pulumi:pulumi:Stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A registration with its inputs resolved.

    Attributes:
        type: type token.
        name: logical name, as the program gives it.
        urn: as the real engine would form it.
        parent: URN of the parent; "" for the stack itself.
        custom: False for a component, which is no resource of the platform.
        inputs: plain values.
        secrets: top-level inputs that hold a secret.
        dependencies: URNs of resources that it refers to or that its options name.
        property_dependencies: input -> URNs of the resources that its value came from.
        protect: refuse to delete or replace it.
        ignore_changes: property paths whose old value stays.
    """

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Any] = field(repr=False)
    secrets: frozenset[str] = frozenset()
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protect: bool = False
    ignore_changes: tuple[str, ...] = ()


Mutate = Callable[[Registration], Registration | None]
"""Changes a registration on its way; None drops it: the program goes on as if it existed, the world lacks it."""


def unchanged(registration: Registration) -> Registration:
    """The `Mutate` that changes nothing."""
    return registration


def without(dropped: Collection[tuple[str, str]]) -> Mutate:
    """The `Mutate` that drops registrations by (type token, logical name)."""
    return lambda registration: None if (registration.type, registration.name) in dropped else registration


def make_urn(stack: str, project: str, parent: str, type_token: str, name: str) -> str:
    """URN as the engine forms it: the types of all ancestors but the stack, then the type, then the name."""
    ancestors = parent.split("::")[2] if parent else ROOT_TYPE
    qualified = type_token if ancestors == ROOT_TYPE else f"{ancestors}${type_token}"
    return f"urn:pulumi:{stack}::{project}::{qualified}::{name}"
