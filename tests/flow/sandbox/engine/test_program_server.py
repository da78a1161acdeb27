"""A program whose engine is gone leaves nothing behind in the process that ran it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from pulumi.automation import _stack
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2

from sandbox.engine.program_server import ProgramServer, program_server
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from tests.support.programs import nothing


def run(server: ProgramServer) -> language_pb2.RunResponse:
    """One run in a thread of its own, for an engine that no longer listens."""
    answers: list[language_pb2.RunResponse] = []
    gone = "127.0.0.1:1"
    request = language_pb2.RunRequest(
        project="p", stack="s", monitor_address=gone, args=[gone], dryRun=True, parallel=4
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


def test_the_automation_api_uses_it_only_meanwhile() -> None:
    with program_server():
        assert vars(_stack)["LanguageServer"] is ProgramServer
    assert vars(_stack)["LanguageServer"] is LanguageServer
