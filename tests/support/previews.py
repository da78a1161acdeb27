"""Previews of a program with the policy pack on the real engine, many of them in a row.

Provider and pack are started once and each engine is led to them: starting them would be half of a preview's time.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.automation._server import LanguageServer
from pulumi.automation.events import EngineEvent
from pulumi.errors import RunError
from pulumi.runtime import run_in_stack, set_all_config
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, provider_pb2, provider_pb2_grpc
from pulumi.runtime.settings import Settings, configure

from sandbox.engine.engine_events import EngineEvents
from sandbox.engine.plugin.servicer import StandIn
from sandbox.engine.pulumi_home import PulumiHome
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


class _Host(LanguageServer):
    """Runs a program for each engine that asks. The SDK's own leaves its event loop open when an engine gives up."""

    def Run(self, request: language_pb2.RunRequest, _: grpc.ServicerContext) -> language_pb2.RunResponse:  # noqa: N802
        monitor, engine = request.monitor_address, request.args[0]
        configure(Settings(request.project, request.stack, monitor, engine, dry_run=request.dryRun))
        set_all_config(dict(request.config))
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_exception_handler(lambda _, __: None)
                runner.run(run_in_stack(self.program))
        except (grpc.RpcError, RunError) as error:
            return language_pb2.RunResponse(error=str(error))
        return language_pb2.RunResponse()


@dataclass
class Previews:
    """A workspace for programs of the dev stack.

    Attributes:
        home: its folder.
        environment: of the command.
        host: runs the programs.
        port: the host's.
        pack: the executable that the engine takes for the pack.
    """

    home: PulumiHome
    environment: Mapping[str, str]
    host: _Host
    port: int
    pack: Path

    def see(self, program: Program) -> list[Violation]:
        """What the pack finds in a program that is previewed in an empty project, in the stack of its resources."""
        self.host.program = lambda: declare(program)
        log = self.home.root / "events.jsonl"
        log.unlink(missing_ok=True)
        stack = next(iter(program.declared.values())).stack
        options = [f"--client=127.0.0.1:{self.port}", "--event-log", str(log), "--policy-pack", str(self.pack)]
        done = self.run("preview", "--stack", stack, "--exec-kind", "auto.inline", *options)
        events = EngineEvents()
        for line in log.read_text().splitlines():
            events(EngineEvent.from_json(json.loads(line)))
        refused = [str(one) for one in events.violations if one.mandatory]
        assert events.faults == refused, events.faults
        assert (done.returncode != 0) is bool(refused), done.stderr
        return events.violations

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The `pulumi` command."""
        return subprocess.run(
            [str(binary()), *words, "--non-interactive"],
            cwd=self.home.project_dir,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


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
    host, led = _Host(lambda: None), folder / "run"
    provider, serve = _Unjudging(home.world_dir, version("pulumi_gcp")), provider_pb2_grpc
    with (
        _served(serve.add_ResourceProviderServicer_to_server, provider) as provider_port,
        _served(language_pb2_grpc.add_LanguageRuntimeServicer_to_server, host) as host_port,
        _pack() as pack_port,
    ):
        led.write_text(_LED.format(port=pack_port))
        led.chmod(0o700)
        attached = {"PULUMI_DEBUG_PROVIDERS": f"gcp:{provider_port}", "PULUMI_DEBUG_COMMANDS": "true"}
        environment = {**home.environment(), **attached}
        workspace = Previews(home, environment, host, host_port, led)
        for name in _STACKS:
            workspace.run("stack", "init", name)
            home.write_config(name, {key: value for key, value in values.items() if key.startswith("gcp:")})
        yield workspace


@contextmanager
def _served(add: Callable[[Any, grpc.Server], None], servicer: object) -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(grace=None).wait()


@contextmanager
def _pack() -> Iterator[int]:
    """The pack as anyone starts it, configured by each engine anew."""
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [str(ROOT / "policies/run"), "127.0.0.1:1"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.terminate()
