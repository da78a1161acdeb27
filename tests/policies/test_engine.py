"""The pack as the engine starts it: an executable that says its port, and answers over gRPC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policies.rules import RULES
from tests.support.policy_programs import CONFIGURATION, Declared, Program, extended, rendered

RUN = Path(__file__).parents[2] / "policies/run"
WORKER, PUSH = "Service/execution-service", "Subscription/execution-push"
MANDATORY = analyzer_pb2.EnforcementLevel.Value("MANDATORY")
ADVISORY = analyzer_pb2.EnforcementLevel.Value("ADVISORY")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    """Started from a link in another folder, with an output that is a pipe and an environment that says little."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "HOME": str(folder)}
    with subprocess.Popen([RUN, "127.0.0.1:1"], cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = analyzer_pb2_grpc.AnalyzerStub(channel)
            stub.Configure(_configured(CONFIGURATION), timeout=30)
            yield stub
        process.send_signal(signal.SIGTERM)


def _configured(configuration: Any) -> analyzer_pb2.ConfigureAnalyzerRequest:
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    for rule in RULES:
        request.policyConfig[rule.id].enforcementLevel = MANDATORY if rule.level == "mandatory" else ADVISORY
        request.policyConfig[rule.id].properties.update(configuration.get(rule.id, {}))
    return request


def _struct(declared: Declared) -> struct_pb2.Struct:
    return json_format.ParseDict(declared.inputs, struct_pb2.Struct())


def _resource_verdict(pack: Any, program: Program) -> set[str]:
    found: set[str] = set()
    for each in program.declared.values():
        request = analyzer_pb2.AnalyzeRequest(type=each.type, urn=each.urn, name=each.name, properties=_struct(each))
        found |= {diagnostic.policyName for diagnostic in pack.Analyze(request, timeout=30).diagnostics}
    return found


def _stack_verdict(pack: Any, program: Program) -> Any:
    request = analyzer_pb2.AnalyzeStackRequest()
    for each in program.declared.values():
        added = request.resources.add(
            type=each.type,
            urn=each.urn,
            name=each.name,
            properties=_struct(each),
            dependencies=list(each.dependencies),
        )
        for name, urns in each.property_dependencies.items():
            added.propertyDependencies[name].urns.extend(urns)
    return pack.AnalyzeStack(request, timeout=60).diagnostics


def test_the_engine_is_told_of_every_rule(pack: Any) -> None:
    told = pack.GetAnalyzerInfo(empty_pb2.Empty(), timeout=30)
    assert [policy.name for policy in told.policies] == [rule.id for rule in RULES]
    assert told.name == "holdfast"


def test_the_engine_hears_nothing_of_what_the_project_renders(pack: Any) -> None:
    assert _resource_verdict(pack, rendered()) == set()
    assert [diagnostic.policyName for diagnostic in _stack_verdict(pack, rendered())] == []


def test_the_engine_is_stopped_by_a_short_ack_deadline(pack: Any) -> None:
    """BR-45"""
    short = extended().changed((PUSH, "ackDeadlineSeconds", 60.0), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "60"))
    found = {diagnostic.policyName: diagnostic for diagnostic in _stack_verdict(pack, short)}
    assert "T06" in found
    assert found["T06"].enforcementLevel == MANDATORY
    assert found["T06"].urn == short.declared[PUSH].urn
    assert "ackDeadlineSeconds is 60, but the service may answer after 600 s" in found["T06"].message


def test_the_engine_is_stopped_by_a_value_that_is_not_known_yet(pack: Any) -> None:
    """The SDK alone would make an advice of a mandatory rule."""
    unknown = rendered().with_(PUSH, "ackDeadlineSeconds", "3eeb2bf0-c639-47a8-9e75-3b44932eb421")
    found = {diagnostic.policyName: diagnostic.enforcementLevel for diagnostic in _stack_verdict(pack, unknown)}
    assert found["T06"] == MANDATORY


def test_the_engine_is_stopped_before_a_resource_that_breaks_a_rule(pack: Any) -> None:
    """BR-118, BR-135"""
    program = rendered().changed((WORKER, "env.PORT", "8080"), (WORKER, "env.PUBSUB_EMULATOR_HOST", ""))
    assert _resource_verdict(pack, program) == {"R09", "R10"}
