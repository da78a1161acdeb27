"""`holdfast run --mode`, against an API and its executor over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from cli.failure import CommandFailed, ExitCode
from cli.main import app
from runtime.execution.answer import failed
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_executor import ScriptedExecutor, stream
from tests.support.served_executor import ServedExecutor
from tests.support.served_pair import HEADERS, WaitedApi, served_pair


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
async def both() -> AsyncIterator[tuple[WaitedApi, ServedExecutor]]:
    async with served_pair() as it:
        yield it


async def call(port: int, *words: str) -> Result:
    """A command as a shell runs it."""
    env = {"HOLDFAST_URL": f"http://127.0.0.1:{port}", "HOLDFAST_KEY": HEADERS["Authorization"].split()[1]}
    return await asyncio.to_thread(CliRunner().invoke, app, ["run", *words], env=env)


async def _fails(_context: RunContext) -> RunResult:
    return failed("no coffee here")


@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_a_run_that_is_waited_for_shows_its_result(both: tuple[WaitedApi, ServedExecutor], mode: str) -> None:
    api, _ = both
    said = await call(api.port, "counts", "--input", '{"ticks": 2}', "--mode", mode)
    assert said.exit_code == ExitCode.OK, said.output
    lines = [line.split() for line in said.output.splitlines()]
    assert ["state", "succeeded"] in lines
    assert ["result", "2"] in lines
    assert sum(line[0] == "tick" for line in lines) == (2 if mode == "stream" else 0)


@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_a_run_that_did_not_succeed_is_an_exit_code(both: tuple[WaitedApi, ServedExecutor], mode: str) -> None:
    api, executor = both
    executor.engine("speaks", _fails)
    said = await call(api.port, "speaks", "--mode", mode)
    assert said.exit_code == ExitCode.RUN_NOT_SUCCEEDED
    assert "no coffee here" in said.output


async def test_a_refusal_is_said_in_the_apis_words(both: tuple[WaitedApi, ServedExecutor]) -> None:
    api, _ = both
    said = await call(api.port, "nobody", "--mode", "stream")
    assert isinstance(said.exception, CommandFailed)
    assert said.exception.exit_code is ExitCode.REFUSED
    assert "/engine" in str(said.exception)


async def test_following_goes_with_the_queue(both: tuple[WaitedApi, ServedExecutor]) -> None:
    said = await call(both[0].port, "counts", "--mode", "sync", "--follow")
    assert isinstance(said.exception, CommandFailed)
    assert said.exception.exit_code is ExitCode.USAGE


async def test_a_stream_that_broke_off_is_no_end() -> None:
    """What a draining API leaves behind."""
    begun = json.dumps({"event_type": "run_initiated", "payload": {"run_id": "r1"}}).encode() + b"\n"
    async with ScriptedExecutor(stream(begun, ends=False)) as api:
        said = await call(api.port, "counts", "--mode", "stream")
    assert isinstance(said.exception, CommandFailed)
    assert said.exception.exit_code is ExitCode.UNREACHABLE
