"""The command as a newcomer meets it: up, a first run of each kind, the other commands, Ctrl-C, and nothing left."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.support.local import ROOT


@pytest.fixture
async def checkout(tmp_path: Path) -> Path:
    """What the command needs of a checkout, apart from this one's state."""
    shutil.copy(ROOT / "Pulumi.local.yaml", tmp_path)
    shutil.copytree(ROOT / "jobs", tmp_path / "jobs")
    return tmp_path


async def holdfast(checkout: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Starts the command."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from cli.main import main; main()", *arguments,
        cwd=checkout, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}, start_new_session=True,
    )  # fmt: skip


async def done(process: asyncio.subprocess.Process, seconds: float = 60) -> tuple[int, str]:
    """Exit code and everything that was said."""
    async with asyncio.timeout(seconds):
        said, _ = await process.communicate()
    return process.returncode if process.returncode is not None else -1, said.decode()


@asynccontextmanager
async def up(checkout: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The stack, running, and what it said until then."""
    process = await holdfast(checkout, "up")
    try:
        assert process.stdout is not None
        said = ""
        async with asyncio.timeout(60):
            while "Ctrl-C" not in said:
                line = (await process.stdout.readline()).decode()
                assert line, said
                said += line
        yield process, said
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def family(process: asyncio.subprocess.Process) -> list[psutil.Process]:
    """Every process that the command has started."""
    return psutil.Process(process.pid).children(recursive=True)


async def gone(processes: list[psutil.Process], seconds: float = 10) -> None:
    """Waits until all have ended."""
    async with asyncio.timeout(seconds):
        while alive := [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
            assert alive
            await asyncio.sleep(0.05)


async def test_once_runs_a_job_of_each_kind_says_their_events_and_results_and_ends_with_zero(checkout: Path) -> None:
    code, said = await done(await holdfast(checkout, "up", "--once"))
    assert code == 0, said
    assert said.count("succeeded") == 2
    assert "Execution started" in said
    assert "Hello, Ada!" in said


async def test_once_fails_with_the_reason_where_the_first_run_does(checkout: Path) -> None:
    flow = {"start": "no", "nodes": {"no": {"type": "fail", "message": "not today"}}}
    (checkout / "jobs/hello.json").write_text(json.dumps(flow))
    code, said = await done(await holdfast(checkout, "up", "--once"))
    assert code == 1, said
    assert "framework_error" in said
    assert "not today" in said


async def test_what_up_prints_works_and_ctrl_c_leaves_no_process_and_no_port(checkout: Path) -> None:
    async with up(checkout) as (process, said):
        endpoint = json.loads((checkout / ".holdfast/local/endpoint.json").read_text())
        assert f"curl -s {endpoint['url']}/v1/runs" in said
        code, shown = await done(
            await holdfast(checkout, "run", "jobs/hello.json", "--input", '{"names": ["Eve"]}', "--follow")
        )
        assert code == 0, shown
        assert "Hello, Eve!" in shown
        code, listed = await done(await holdfast(checkout, "runs", "list"))
        assert code == 0
        assert listed.count("succeeded") == 3
        code, refused = await done(await holdfast(checkout, "run", "no-such-engine"))
        assert code == 4
        assert len(refused.strip().splitlines()) == 1
        assert "no-such-engine" in refused
        processes = family(process)
        assert len(processes) > 2
        process.send_signal(signal.SIGINT)
        code, last = await done(process, seconds=10)
        assert code == 0, last
        await gone(processes, 1)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(endpoint["url"])
    code, said = await done(await holdfast(checkout, "runs", "list"))
    assert code == 3
    assert "make up" in said


async def test_a_killed_stack_takes_its_processes_with_it_and_the_next_one_keeps_its_runs(checkout: Path) -> None:
    async with up(checkout) as (process, _):
        processes = family(process)
        process.kill()
        await process.wait()
    async with up(checkout) as (process, _):
        await gone(processes)
        _, listed = await done(await holdfast(checkout, "runs", "list"))
        assert listed.count("succeeded") == 4
        second = await holdfast(checkout, "up")
        code, said = await done(second)
        assert code == 5
        assert "in use" in said
        process.send_signal(signal.SIGTERM)
        code, _ = await done(process, seconds=10)
        assert code == 0
