"""Runs the program with the real engine, offline, against the stand-in provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pulumi.runtime.proto import language_pb2_grpc, provider_pb2_grpc

from sandbox.engine.cli.binary import find_pulumi
from sandbox.engine.collector import uncollected
from sandbox.engine.command import PulumiCommand
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.engine_events import EngineEvents, Step
from sandbox.engine.engine_state import EngineState
from sandbox.engine.plugin.servicer import StandIn
from sandbox.engine.program_server import ProgramServer
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from sandbox.engine.serving import served
from sandbox.engine.violation import Violation
from sandbox.world import World

_AT_ONCE: Final = ("--yes", "--skip-preview")
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
        providers: beside the stand-in, what serves other packages on this host: name -> port.
        binary: the command; None looks for it.
    """

    home: PulumiHome
    stack: str
    config: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    project: str = "holdfast"
    program: Callable[[], None] | None = None
    policy_packs: Sequence[Path] = ()
    providers: Mapping[str, int] = field(default_factory=dict)
    binary: Path | None = None

    def preview(self) -> Plan:
        """What an `up` would do.

        Raises:
            DeploymentFailed: with a line for each fault and each mandatory finding of a policy.
            PulumiMissing: there is no command.
        """
        with self._running() as operate:
            return _plan(operate("preview", *self._packs()))

    def up(self) -> Deployment:
        """Brings the world to what the program declares.

        Raises:
            DeploymentFailed: as `preview`; what was changed before the fault stays changed.
            PulumiMissing: there is no command.
        """
        with self._running() as operate:
            events = operate("up", *_AT_ONCE, *self._packs())
            exported = self._command().demand("stack", "export", "--show-secrets", "--stack", self.stack)
            state = EngineState.read(json.loads(exported)["deployment"])
        world = World.load(self.home.world_dir)
        if world is None:
            raise DeploymentFailed([f"the world in {self.home.world_dir} was removed while the engine worked"])
        state.complete(world)
        world.save()
        return Deployment(
            outputs=state.outputs,
            secret_outputs=state.secret_outputs,
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
        with self._running() as operate:
            return _plan(operate("refresh", *_AT_ONCE))

    def destroy(self) -> Plan:
        """Deletes everything.

        Raises:
            DeploymentFailed: something is protected; what was deleted before stays deleted.
            PulumiMissing: there is no command.
        """
        with self._running() as operate:
            return _plan(operate("destroy", *_AT_ONCE))

    def _packs(self) -> list[str]:
        return [f"--policy-pack={pack}" for pack in self.policy_packs]

    def _empty_world(self) -> World:
        number, region = self.config.get("holdfast:project_number", ""), self.config.get("gcp:region", "")
        return World(self.config.get("gcp:project", ""), number, region, self.home.world_dir)

    def _command(self) -> PulumiCommand:
        return PulumiCommand(self.binary or find_pulumi(), self.home)

    @contextmanager
    def _running(self) -> Iterator[Callable[..., EngineEvents]]:
        """The stack with its values set; runs an operation on it, see `PulumiCommand.operate`.

        Program and provider run in this process, which loads Google's SDK once for both.
        """
        command = self._command()
        program = ProgramServer(self.program or _project_program())
        provider = StandIn(self.home.world_dir, version("pulumi_gcp"))
        with ONE_AT_A_TIME, uncollected(), self.home.held():
            self.home.prepare(self.project, self._empty_world())
            self._set_values(command)
            with (
                served(language_pb2_grpc.add_LanguageRuntimeServicer_to_server, program) as program_port,
                served(provider_pb2_grpc.add_ResourceProviderServicer_to_server, provider) as provider_port,
            ):
                led = replace(command, providers={**self.providers, "gcp": provider_port})
                yield lambda *words: led.operate(program_port, *words, "--stack", self.stack)

    def _set_values(self, command: PulumiCommand) -> None:
        if not self.home.has_state(self.project, self.stack):
            command.demand("stack", "init", self.stack)
        self.home.write_config(self.stack, self.config)
        for key, value in self.secrets.items():
            command.demand("config", "set", "--secret", "--stack", self.stack, key, given=value)


def policy_packs(project_dir: Path) -> tuple[Path, ...]:
    """The project's own policy pack; none where it has no `policies/run`."""
    pack = project_dir / "policies" / "run"
    return (pack,) if pack.exists() else ()


def _project_program() -> Callable[[], None]:
    from infra.program import program

    return program


def _plan(events: EngineEvents) -> Plan:
    return Plan(steps=tuple(events.steps), violations=tuple(events.violations), warnings=tuple(events.warnings))
