"""Previews of a program with the policy pack on the real engine, many of them in a row.

Provider and pack are started once and each engine is led to them: starting them would be half of a preview's time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import grpc
import pulumi
from pulumi.runtime.proto import language_pb2_grpc, provider_pb2, provider_pb2_grpc

from sandbox.engine.collector import uncollected
from sandbox.engine.command import PulumiCommand
from sandbox.engine.plugin.servicer import StandIn
from sandbox.engine.program_server import ProgramServer
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.engine.serving import served
from sandbox.engine.violation import Violation
from sandbox.world import World
from tests.support.policy_programs import NUMBER, PROJECT, Program
from tests.support.real_engine import ROOT, binary, values_of

_STACKS = ("dev", "prod")
_LED = """#!/bin/sh
echo {port}
exec sleep 600
"""


class _Unjudging(StandIn):
    """Takes whatever it is given, as Google's own provider does in a preview with all but the plainest mistakes."""

    def Check(self, request: provider_pb2.CheckRequest, _: grpc.ServicerContext) -> provider_pb2.CheckResponse:  # noqa: N802 - as below, the protocol's name
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: provider_pb2.CreateRequest, _: grpc.ServicerContext) -> provider_pb2.CreateResponse:  # noqa: N802
        assert request.preview
        return provider_pb2.CreateResponse(properties=request.properties)


@dataclass
class Previews:
    """A workspace for programs of the dev stack.

    Attributes:
        command: in its folder.
        host: runs the programs.
        port: the host's.
        pack: the executable that the engine takes for the pack.
    """

    command: PulumiCommand
    host: ProgramServer
    port: int
    pack: Path

    def see(self, program: Program) -> list[Violation]:
        """What the pack finds in a program that is previewed in an empty project, in the stack of its resources."""
        self.host.program = lambda: declare(program)
        stack = next(iter(program.declared.values())).stack
        with uncollected():
            done, events = self.command.operation(self.port, "preview", "--stack", stack, f"--policy-pack={self.pack}")
        refused = [str(one) for one in events.violations if one.mandatory]
        assert events.faults == refused, events.faults
        assert (done.returncode != 0) is bool(refused), done.stderr
        return events.violations


def declare(program: Program) -> None:
    """Registers the resources of a program, with what each of their inputs came from."""
    made: dict[str, pulumi.Resource] = {}
    for each in program.declared.values():
        sources = {
            name: [made[urn] for urn in urns if urn in made] for name, urns in each.property_dependencies.items()
        }
        inputs = {name: _from(sources.get(name, []), value) for name, value in each.inputs.items()}
        awaited = [made[urn] for urn in each.dependencies if urn in made]
        made[each.urn] = pulumi.CustomResource(each.type, each.name, inputs, pulumi.ResourceOptions(depends_on=awaited))


def _from(sources: list[pulumi.Resource], value: object) -> pulumi.Input[object]:
    """A value that an output of each source went into."""
    return pulumi.Output.all(*(source.urn for source in sources)).apply(lambda _: value) if sources else value


@contextmanager
def previews(folder: Path) -> Iterator[Previews]:
    """Opens a workspace in a folder; everything that it started ends with it."""
    values = values_of("dev")
    home = PulumiHome(folder)
    home.prepare("holdfast", World(PROJECT, NUMBER, values["gcp:region"], home.world_dir))
    host, led = ProgramServer(lambda: None), folder / "run"
    provider = _Unjudging(home.world_dir, version("pulumi_gcp"))
    with (
        served(provider_pb2_grpc.add_ResourceProviderServicer_to_server, provider) as provider_port,
        served(language_pb2_grpc.add_LanguageRuntimeServicer_to_server, host) as host_port,
        _pack() as pack_port,
    ):
        led.write_text(_LED.format(port=pack_port))
        led.chmod(0o700)
        command = PulumiCommand(binary(), home, {"gcp": provider_port})
        for name in _STACKS:
            command.demand("stack", "init", name)
            home.write_config(name, {key: value for key, value in values.items() if key.startswith("gcp:")})
        yield Previews(command, host, host_port, led)


@contextmanager
def _pack() -> Iterator[int]:
    """The pack as anyone starts it, configured by each engine anew."""
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [str(ROOT / "policies/run"), "127.0.0.1:1"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.terminate()
