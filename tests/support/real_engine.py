"""Stacks of the repository on the real engine, each in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sandbox.engine.cli.binary import PulumiMissing, find_pulumi
from sandbox.engine.deployment import Deployment
from sandbox.engine.embedded import realise
from sandbox.engine.pulumi_cli import PulumiEngine
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.stack_file import merged, read_stack_file
from sandbox.world import Resource, World
from tests.support.job_keys import pair
from tests.support.requirements import missing

ROOT = Path(__file__).parents[2]
SIGNING_KEY = "holdfast:signing_key"


def binary() -> Path:
    """The `pulumi` command."""
    try:
        return find_pulumi()
    except PulumiMissing as error:
        missing(str(error))


def values_of(stack: str, **changes: Any) -> dict[str, str]:
    """The values of a stack file; a mapping is merged into its section."""
    return merged(
        read_stack_file(ROOT / f"Pulumi.{stack}.yaml"), {f"holdfast:{name}": value for name, value in changes.items()}
    )


def engine(folder: Path, stack: str, program: Callable[[], None] | None = None, **changes: Any) -> PulumiEngine:
    """A stack of the repository on the real engine."""
    return PulumiEngine(
        home=PulumiHome(folder),
        stack=stack,
        config=values_of(stack, **changes),
        secrets={SIGNING_KEY: pair().private},
        program=program,
        binary=binary(),
    )


def embedded(folder: Path, stack: str, **changes: Any) -> Deployment:
    """The same stack on the embedded engine."""
    return realise(values_of(stack, **changes), {SIGNING_KEY: pair().private}, stack=stack, world_dir=folder)


def saved_world(built: PulumiEngine) -> World:
    """The world that the plug-in keeps."""
    world = World.load(built.home.world_dir)
    assert world is not None
    return world


def short(urns: Iterable[str]) -> list[str]:
    """Logical names, sorted."""
    return sorted(urn.rpartition("::")[2] for urn in urns)


def comparable(world: World) -> dict[str, dict[str, Any]]:
    """Everything about each resource but the digests of its secrets, which are salted."""
    return {f"{one.type} {one.name}": _fields(one) for one in world}


def _fields(one: Resource) -> dict[str, Any]:
    names = ("urn", "inputs", "outputs", "secrets", "dependencies", "protect")
    return {name: getattr(one, name) for name in names}
