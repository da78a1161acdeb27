"""Runs the program with the real engine, offline, against the stand-in provider."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from pulumi import automation as auto

from sandbox.engine.cli.binary import find_pulumi
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.engine_events import EngineEvents, Step
from sandbox.engine.engine_state import EngineState
from sandbox.engine.program_server import program_server
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from sandbox.engine.violation import Violation
from sandbox.world import World

_CONFIG_SECONDS: Final = 30
"""Longest that storing a secret may take."""
_CREATED: Final = frozenset({"create"})
_UPDATED: Final = frozenset({"update"})
_REPLACED: Final = frozenset({"create-replacement"})
_DELETED: Final = frozenset({"delete"})
_UNCHANGED: Final = frozenset({"same"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an operation did, or in a preview would do.

    Attributes:
        steps: one for each resource of the platform, in the engine's order.
        violations: what the policy packs found, none of them mandatory.
        warnings: what the program and the engine warned of.
    """

    steps: tuple[Step, ...]
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]

    def urns(self, operation: str) -> tuple[str, ...]:
        """The resources of one operation, `create`, `update`, `same`, `delete` or `create-replacement`."""
        return tuple(step.urn for step in self.steps if step.operation == operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulumiEngine:
    """One stack on the real engine; each call blocks until the engine has ended.

    One operation runs at a time in a process. The calling thread may have a running event loop of its own.

    Attributes:
        home: where state, plug-in and world are.
        stack: name of the stack.
        config: the stack's values, full keys; structures as JSON text.
        secrets: the stack's secret values, likewise; never on a command line.
        project: name of the Pulumi project, from Pulumi.yaml.
        program: what to run; None runs the project's own.
        policy_packs: folders or executable files; mandatory findings fail every preview and up.
        binary: the command; None looks for it.
    """

    home: PulumiHome
    stack: str
    config: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    project: str = "holdfast"
    program: Callable[[], None] | None = None
    policy_packs: Sequence[Path] = ()
    binary: Path | None = None

    def preview(self) -> Plan:
        """What an `up` would do.

        Raises:
            DeploymentFailed: with a line for each fault and each mandatory finding of a policy.
            PulumiMissing: there is no command.
        """
        with self._running() as (stack, events):
            stack.preview(on_event=events, policy_packs=self._packs())
        return _plan(events)

    def up(self) -> Deployment:
        """Brings the world to what the program declares.

        Raises:
            DeploymentFailed: as `preview`; what was changed before the fault stays changed.
            PulumiMissing: there is no command.
        """
        with self._running() as (stack, events):
            # Without its secrets: they would only be decrypted for a record that nobody reads here.
            result = stack.up(on_event=events, policy_packs=self._packs(), show_secrets=False)
            state = EngineState.read(stack.export_stack().deployment)
        world = World.load(self.home.world_dir)
        if world is None:
            raise DeploymentFailed([f"the world in {self.home.world_dir} was removed while the engine worked"])
        state.complete(world)
        world.save()
        return Deployment(
            outputs={name: output.value for name, output in result.outputs.items()},
            secret_outputs=frozenset(name for name, output in result.outputs.items() if output.secret),
            world=world,
            created=events.urns(_CREATED),
            updated=events.urns(_UPDATED),
            replaced=events.urns(_REPLACED),
            deleted=events.urns(_DELETED),
            unchanged=events.urns(_UNCHANGED),
            registrations=state.registrations(),
            warnings=(*events.warnings, *map(str, events.violations)),
        )

    def refresh(self) -> Plan:
        """Takes what changed in the world behind the engine's back into its state: `update` and `delete` steps.

        Raises:
            DeploymentFailed: with a line for each fault.
            PulumiMissing: there is no command.
        """
        with self._running() as (stack, events):
            stack.refresh(on_event=events, show_secrets=False)
        return _plan(events)

    def destroy(self) -> Plan:
        """Deletes everything.

        Raises:
            DeploymentFailed: something is protected; what was deleted before stays deleted.
            PulumiMissing: there is no command.
        """
        with self._running() as (stack, events):
            stack.destroy(on_event=events, show_secrets=False)
        return _plan(events)

    def _packs(self) -> list[str]:
        return [str(pack) for pack in self.policy_packs]

    def _empty_world(self) -> World:
        number, region = self.config.get("holdfast:project_number", ""), self.config.get("gcp:region", "")
        return World(self.config.get("gcp:project", ""), number, region, self.home.world_dir)

    @contextmanager
    def _running(self) -> Iterator[tuple[auto.Stack, EngineEvents]]:
        """The stack with its values set; the engine's refusal as lines."""
        binary = self.binary or find_pulumi()
        events = EngineEvents()
        with ONE_AT_A_TIME, self.home.held(), program_server():
            self.home.prepare(self.project, self._empty_world())
            try:
                yield self._selected(binary), events
            except auto.errors.CommandError as error:
                # Where the engine told nothing, its whole output does.
                lines = events.faults or [line for line in str(error).splitlines() if line.strip()]
                raise DeploymentFailed(lines) from error

    def _selected(self, binary: Path) -> auto.Stack:
        environment = self.home.environment()
        stack = auto.create_or_select_stack(
            self.stack,
            project_name=self.project,
            program=self.program or _project_program(),
            opts=auto.LocalWorkspaceOptions(
                work_dir=str(self.home.project_dir),
                env_vars=environment,
                pulumi_command=_command(binary),
            ),
        )
        self.home.write_config(self.stack, self.config)
        for key, value in self.secrets.items():
            subprocess.run(
                [str(binary), "config", "set", "--secret", "--stack", self.stack, "--non-interactive", key],
                cwd=self.home.project_dir,
                env={**os.environ, **environment},
                input=value,
                capture_output=True,
                text=True,
                timeout=_CONFIG_SECONDS,
                check=True,
            )
        return stack


def policy_packs(project_dir: Path) -> tuple[Path, ...]:
    """The project's own policy pack; none where it has no `policies/run`."""
    pack = project_dir / "policies" / "run"
    return (pack,) if pack.exists() else ()


@cache
def _command(binary: Path) -> auto.PulumiCommand:
    """The SDK asks a command for its version once."""
    return auto.PulumiCommand(root=str(binary.parent.parent))


def _project_program() -> Callable[[], None]:
    from infra.program import program

    return program


def _plan(events: EngineEvents) -> Plan:
    return Plan(steps=tuple(events.steps), violations=tuple(events.violations), warnings=tuple(events.warnings))
