"""A program whose engine is gone leaves nothing behind in the process that ran it."""

from __future__ import annotations

import asyncio
import threading

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, language_pb2

from sandbox.engine.program_server import ProgramServer
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from sandbox.engine.serving import served
from tests.support.programs import nothing

GONE = "127.0.0.1:1"


def run(server: ProgramServer, engine: str = GONE) -> language_pb2.RunResponse:
    """One run in a thread of its own, for an engine that no longer takes registrations."""
    answers: list[language_pb2.RunResponse] = []
    request = language_pb2.RunRequest(
        project="p", stack="s", monitor_address=GONE, args=[engine], dryRun=True, parallel=4
    )
    with ONE_AT_A_TIME:
        thread = threading.Thread(target=lambda: answers.append(server.Run(request, None)))
        thread.start()
        thread.join(60)
    (answer,) = answers
    return answer


def test_a_run_for_an_engine_that_is_gone_ends_and_leaves_no_loop_open(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    made = asyncio.new_event_loop

    def noted() -> asyncio.AbstractEventLoop:
        loops.append(made())
        return loops[-1]

    monkeypatch.setattr("asyncio.events.new_event_loop", noted)

    assert "terminated" in run(ProgramServer(nothing)).error
    assert [loop.is_closed() for loop in loops] == [True]


class _Engine(engine_pb2_grpc.EngineServicer):
    """Takes what it is told."""

    def __init__(self) -> None:
        self.told: list[engine_pb2.LogRequest] = []

    def Log(self, request: engine_pb2.LogRequest, _: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802 - the protocol's name
        self.told.append(request)
        return empty_pb2.Empty()


def test_an_engine_is_told_what_went_wrong_and_not_of_every_step() -> None:
    engine = _Engine()
    with served(engine_pb2_grpc.add_EngineServicer_to_server, engine) as port:
        answer = run(ProgramServer(nothing), engine=f"127.0.0.1:{port}")

    assert [one.severity for one in engine.told] == [engine_pb2.ERROR]
    assert [one.message for one in engine.told] == [answer.error]
