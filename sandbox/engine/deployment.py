"""What a run of the program did, or why it did nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runtime.contract.errors import HoldfastError
from sandbox.engine.registration import Registration
from sandbox.world import World


class Engine(StrEnum):
    """What runs the program."""

    EMBEDDED = "embedded"
    """This process; needs nothing else."""
    PULUMI = "pulumi"
    """The real engine, which keeps its state too; needs the `pulumi` command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A successful run.

    Attributes:
        outputs: what the program exports, secrets unwrapped.
        secret_outputs: names of the outputs that are secret.
        world: the declared resources, saved in its folder.
        created: URNs in the order of creation.
        updated: URNs of resources changed in place.
        replaced: URNs of resources that the platform cannot change in place.
        deleted: URNs in the order of deletion, dependents first.
        unchanged: URNs of the rest.
        registrations: what the program registered, components too, in order; without what `mutate` dropped.
        warnings: what the program warned of, and what rules of the policy pack advise.
    """

    outputs: Mapping[str, Any] = field(repr=False)
    secret_outputs: frozenset[str]
    world: World
    created: tuple[str, ...]
    updated: tuple[str, ...]
    replaced: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: tuple[str, ...]
    registrations: tuple[Registration, ...] = field(repr=False)
    warnings: tuple[str, ...]


class DeploymentFailed(HoldfastError):
    """A run that was refused; the world is as it was.

    Args:
        lines: one readable line for each fault, at least one.
    """

    code = "deployment_failed"

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))
