"""`holdfast dead-letters`, against the API over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from cli.failure import CommandFailed, ExitCode
from cli.main import app
from tests.support.dead_pushes import dead_push
from tests.support.served_api import KEY, LETTER_ACCOUNT, ServedApi


@pytest.fixture
async def served() -> AsyncIterator[ServedApi]:
    api = ServedApi()
    await api.start()
    yield api
    await api.stop()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


async def call(served: ServedApi, *words: str, typed: str | None = None) -> Result:
    """A command as a shell runs it."""
    env = {"HOLDFAST_URL": f"http://127.0.0.1:{served.port}", "HOLDFAST_KEY": KEY}
    return await asyncio.to_thread(CliRunner().invoke, app, ["dead-letters", *words], input=typed, env=env)


async def give_up(served: ServedApi, *run_ids: str) -> list[str]:
    """Runs that the broker gave up; the ids of their letters, newest first."""
    token = served.scheduler_token(email=LETTER_ACCOUNT)
    for run_id in run_ids:
        await served.submit(run_id)
        body = dead_push(served.publisher.messages[-1][1])
        assert (await served.call("POST", "/internal/dead-letters", body, key=token))[0] == 204
        await served.clock.advance(1)
    _, listed, _ = await served.call("GET", "/v1/dead-letters")
    return [letter["id"] for letter in listed["dead_letters"]]


async def test_letters_are_listed_with_what_the_other_commands_need(served: ServedApi) -> None:
    ids = await give_up(served, "r1", "r2")
    listed = await call(served, "list", "--source", "execution", "--failure-class", "retry_exhausted")
    assert listed.exit_code == ExitCode.OK
    assert [line.split()[:3] for line in listed.output.splitlines()] == [
        [ids[0], "r2", "retry_exhausted"],
        [ids[1], "r1", "retry_exhausted"],
    ]


async def test_a_letter_is_shown_and_its_bytes_are_written(served: ServedApi, tmp_path: Path) -> None:
    token = served.scheduler_token(email=LETTER_ACCOUNT)
    await served.call("POST", "/internal/dead-letters", dead_push(b"\x00\xff"), key=token)
    (letter_id,) = await give_up(served)
    shown = await call(served, "show", letter_id, "--payload", str(tmp_path / "bytes"))
    assert shown.exit_code == ExitCode.OK, shown.output
    assert "malformed_message" in shown.output
    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"


async def test_one_letter_is_replayed_at_once_and_refused_the_second_time(served: ServedApi) -> None:
    (letter_id,) = await give_up(served, "r1")
    assert (await call(served, "replay", letter_id)).exit_code == ExitCode.OK
    again = await call(served, "replay", letter_id)
    assert isinstance(again.exception, CommandFailed)
    assert again.exception.exit_code is ExitCode.REFUSED
    assert "already_replayed" in str(again.exception)


@pytest.mark.parametrize(("words", "typed", "published"), [((), "y\n", 4), ((), "n\n", 2), (("--yes",), None, 4)])
async def test_a_filter_is_replayed_once_its_count_is_confirmed(
    served: ServedApi, words: tuple[str, ...], typed: str | None, published: int
) -> None:
    await give_up(served, "r1", "r2")
    done = await call(served, "replay", "--failure-class", "retry_exhausted", *words, typed=typed)
    assert done.exit_code == ExitCode.OK, done.output
    assert done.output.startswith("2 letters")
    assert ("Replay 2 runs?" in done.output) is (typed is not None)
    assert len(served.publisher.messages) == published
    again = await call(served, "replay", "--source", "execution", "--yes")
    assert again.output.startswith("0 letters" if published == 4 else "2 letters"), "what was replayed is left out"


@pytest.mark.parametrize("words", [(), ("a" * 64, "--source", "execution")])
async def test_a_replay_of_everything_must_be_meant(served: ServedApi, words: tuple[str, ...]) -> None:
    refused = await call(served, "replay", *words)
    assert isinstance(refused.exception, CommandFailed)
    assert refused.exception.exit_code is ExitCode.USAGE
