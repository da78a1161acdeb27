"""The private folder that the real engine works in: plug-in, state, and the world that the plug-in keeps.

The stand-in provider is found here and nowhere else, so a stack that is deployed with any other `PULUMI_HOME` cannot
reach it. Nothing of it can be moved by an environment variable.
"""

from __future__ import annotations

import fcntl
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import yaml

from sandbox.engine.deployment import DeploymentFailed
from sandbox.local_keys import write_private
from sandbox.stack_file import config_text
from sandbox.world import World

_LAUNCHER: Final = """#!/bin/sh
exec {python} -P -m sandbox.engine.plugin {world} "$@"
"""


@dataclass(frozen=True, slots=True)
class PulumiHome:
    """One stack's folder.

    Attributes:
        root: absolute; made where it is missing, private to its owner.
    """

    root: Path

    @property
    def project_dir(self) -> Path:
        """Where the engine finds the project file and the stack file."""
        return self.root / "project"

    @property
    def world_dir(self) -> Path:
        """Where the plug-in keeps the world."""
        return self.root / "world"

    def has_state(self, project: str, stack: str) -> bool:
        """Whether the engine has begun a stack here."""
        return (self.root / "state" / ".pulumi" / "stacks" / project / f"{stack}.json").exists()

    def environment(self) -> dict[str, str]:
        """What makes the engine work without an account, without the network, and with this folder's plug-in only."""
        return {
            "PULUMI_HOME": str(self.root),
            "PULUMI_BACKEND_URL": f"file://{self.root / 'state'}",
            # The state is as private as its folder; there is no one to ask for a passphrase.
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
            "PULUMI_DEBUG_PROVIDERS": "",
            # The engine writes its events for who asks for such commands only.
            "PULUMI_DEBUG_COMMANDS": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "PULUMI_NEO": "false",
            # What the policy pack runs with.
            "PYTHON": sys.executable,
        }

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other processes out; a lock that a killed engine left in the state is then nobody's, and goes.

        Raises:
            DeploymentFailed: another process works in the folder.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.root / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DeploymentFailed([f"{self.root} is in use by another process; wait for it"]) from None
            shutil.rmtree(self.root / "state" / ".pulumi" / "locks", ignore_errors=True)
            yield

    def prepare(self, project: str, world: World) -> None:
        """Lays the folder out.

        Args:
            project: name of the Pulumi project.
            world: an empty one; it is saved where there is none yet.

        Raises:
            DeploymentFailed: the folder holds the world of another project or region.
        """
        for folder in (self.root, self.root / "state", self.project_dir, self.world_dir):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        plugin = self.root / "plugins" / f"resource-gcp-v{version('pulumi_gcp')}" / "pulumi-resource-gcp"
        plugin.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        plugin.write_text(_LAUNCHER.format(python=shlex.quote(sys.executable), world=shlex.quote(str(self.world_dir))))
        plugin.chmod(0o700)
        (self.project_dir / "Pulumi.yaml").write_text(f"name: {project}\nruntime: python\n")
        kept = World.load(self.world_dir)
        if kept is None:
            world.save()
        elif (kept.project, kept.number, kept.region) != (world.project, world.number, world.region):
            place = f"{kept.project} ({kept.number}) in {kept.region}"
            wanted = f"{world.project} ({world.number}) in {world.region}"
            fault = f"{self.root} holds the world of {place}, and the stack is in {wanted}; remove it to start anew"
            raise DeploymentFailed([fault])

    def write_config(self, stack: str, config: Mapping[str, str]) -> None:
        """Replaces the stack's values, and drops its secrets; how they are encrypted stays."""
        path = self.project_dir / f"Pulumi.{stack}.yaml"
        before: Mapping[str, Any] = yaml.safe_load(path.read_text()) if path.exists() else {}
        kept = {name: value for name, value in (before or {}).items() if name != "config"}
        values = {key: config_text(value) for key, value in sorted(config.items())}
        write_private(path, yaml.safe_dump({**kept, "config": values}))
