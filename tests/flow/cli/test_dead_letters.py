"""`holdfast dead-letters`, against the API over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from cli.failure import CommandFailed, ExitCode
from cli.main import app
from runtime.contract import names
from runtime.ports.documents import Delete, Key, Replace, Version
from tests.support.dead_pushes import dead_push
from tests.support.faulty_documents import Fault
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
    assert "2 bytes, the message's bytes" in shown.output


async def test_data_that_was_no_base64_is_written_as_it_came_and_called_so(served: ServedApi, tmp_path: Path) -> None:
    (letter_id,) = await give_up(served, "r1")
    kept = await served.memory.get(key := Key(names.DEAD_LETTER_PAYLOADS, letter_id))
    assert kept is not None
    as_workers_write = {**kept.data, "data": b"no base64!", "encoding": "as_received"}
    await served.memory.commit([Replace(key, as_workers_write, kept.version)])
    shown = await call(served, "show", letter_id, "--payload", str(tmp_path / "bytes"))
    assert "as it came: no base64" in shown.output
    assert (tmp_path / "bytes").read_bytes() == b"no base64!"


@pytest.mark.parametrize("there", [False, True])
async def test_a_message_is_written_for_its_owner_only_because_it_holds_a_token(
    served: ServedApi, tmp_path: Path, there: bool
) -> None:
    file = tmp_path / "bytes"
    if there:
        file.write_bytes(b"longer than the message" * 100)
        file.chmod(0o644)
    (letter_id,) = await give_up(served, "r1")
    assert (await call(served, "show", letter_id, "--payload", str(file))).exit_code == ExitCode.OK
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_bytes())["job_id"] == "r1.1", "and nothing of what was there is left"


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


async def test_a_run_with_two_letters_is_counted_and_replayed_once(served: ServedApi) -> None:
    await give_up(served, "r1", "r2")
    token = served.scheduler_token(email=LETTER_ACCOUNT)
    again = dead_push(served.publisher.messages[0][1], message_id="9002", published="2026-01-01T00:01:00Z")
    assert (await served.call("POST", "/internal/dead-letters", again, key=token))[0] == 204
    done = await call(served, "replay", "--source", "execution", typed="y\n")
    assert done.exit_code == ExitCode.OK, done.output
    assert done.output.startswith("3 letters")
    assert "Replay 2 runs?" in done.output
    assert [done.output.count(f"{run}: generation 2") for run in ("r1", "r2")] == [1, 1]


async def test_a_filter_goes_on_past_a_letter_that_is_refused_and_ends_with_its_code(served: ServedApi) -> None:
    ids = await give_up(served, "r1", "r2", "r3")
    await served.memory.commit([Delete(Key(names.RUNS, "r2"), await version_of(served, names.RUNS, "r2"))])
    done = await call(served, "replay", "--source", "execution", "--yes")
    assert done.exit_code == ExitCode.REFUSED
    assert [line.split(":")[0] for line in done.output.splitlines()[1:]] == ["r3", "r2", "r1"]
    assert "run_not_found" in done.output
    left = (await served.call("GET", "/v1/dead-letters"))[1]["dead_letters"]
    assert [letter["id"] for letter in left if letter["replayed_generation"] is None] == [ids[1]]


async def test_a_filter_stops_where_the_api_is_away_for_it_refused_nothing(served: ServedApi) -> None:
    await give_up(served, "r1", "r2")
    before = len(served.documents.calls)
    served.documents.choose = lambda number, _kind, _writes: Fault.DOWN if number >= before else None
    done = await call(served, "replay", "--source", "execution", "--yes")
    assert isinstance(done.exception, CommandFailed)
    assert done.exception.exit_code is ExitCode.UNREACHABLE
    assert "store_unavailable" in str(done.exception)


async def version_of(served: ServedApi, collection: str, id_: str) -> Version:
    found = await served.memory.get(Key(collection, id_))
    assert found is not None
    return found.version


@pytest.mark.parametrize("words", [(), ("a" * 64, "--source", "execution")])
async def test_a_replay_of_everything_must_be_meant(served: ServedApi, words: tuple[str, ...]) -> None:
    refused = await call(served, "replay", *words)
    assert isinstance(refused.exception, CommandFailed)
    assert refused.exception.exit_code is ExitCode.USAGE
