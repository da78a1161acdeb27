"""Runs per second and latency through the whole local stack, against a bare HTTP echo and raw PostgreSQL commits.

    make bench        or        uv run python bench/end_to_end.py [--rounds 5] [--seconds 3]

One process of load, everything on loopback and on the same cores as what it measures, so only the ratios mean
anything: the three are measured in turn, round by round, in one run. A run is timed from sending `POST /v1/runs` to
the answer of the long poll that says the run is complete, its terminal record written.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sandbox.local_stack import LocalOptions, LocalStack

IN_FLIGHT = (1, 16, 64)
FLOW = {"start": "done", "nodes": {"done": {"type": "set", "value": {"ok": True}, "next": None}}}
ECHO = """
import asyncio, sys
from aiohttp import web

async def echo(request):
    return web.Response(body=await request.read())

async def main():
    app = web.Application()
    app.router.add_post("/", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

import uvloop
uvloop.run(main())
"""

Step = Callable[[], Awaitable[None]]


@dataclass
class Measure:
    """What one workload did, round by round."""

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def percentile(self, part: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000


async def measure(step: Step, in_flight: int, seconds: float, into: Measure) -> None:
    """Keeps `in_flight` steps going for a while."""
    end = time.perf_counter() + seconds
    done: list[float] = []

    async def lane() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            await step()
            done.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(in_flight)))
    into.rates.append(len(done) / (time.perf_counter() - began))
    into.latencies.extend(done)


def run_step(session: aiohttp.ClientSession, url: str) -> Step:
    """One run, to its end."""

    async def step() -> None:
        async with session.post(f"{url}/v1/runs", json={"engine": "flow", "flow": FLOW, "input": None}) as response:
            response.raise_for_status()
            run_id = (await response.json())["run_id"]
        after, complete, state = -1, False, ""
        while not complete:
            async with session.get(f"{url}/v1/runs/{run_id}/events?after={after}&wait=20") as response:
                page = await response.json()
            after, complete, state = page["next_after"], page["complete"], page["state"]
        if state != "succeeded":
            raise RuntimeError(f"run {run_id} ended as {state}")

    return step


def echo_step(session: aiohttp.ClientSession, url: str) -> Step:
    """One kilobyte there and back."""
    body = b"x" * 1024

    async def step() -> None:
        async with session.post(url, data=body) as response:
            await response.read()

    return step


def commit_step(pool: asyncpg.Pool[asyncpg.Record]) -> Step:
    """One row, durable."""

    async def step() -> None:
        async with pool.acquire() as connection:
            await connection.execute("INSERT INTO bench_rows (body) VALUES ($1)", b"x" * 1024)

    return step


async def compare(steps: dict[str, Step], rounds: int, seconds: float) -> None:
    """Measures in turn and prints the table."""
    print(f"{'in flight':>9}  {'':8} {'per second':>10} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8}   a run is")
    for in_flight in IN_FLIGHT:
        found = {name: Measure() for name in steps}
        for step in steps.values():
            await measure(step, in_flight, min(1.0, seconds), Measure())
        for _ in range(rounds):
            for name, step in steps.items():
                await measure(step, in_flight, seconds, found[name])
        for name, result in found.items():
            ratio = "" if name == "run" else f"{result.rate / found['run'].rate:.1f} of these"
            print(
                f"{in_flight:>9}  {name:8} {result.rate:>10.1f} {result.percentile(0.5):>8.1f}"
                f" {result.percentile(0.9):>8.1f} {result.percentile(0.99):>8.1f}   {ratio}"
            )


async def main(rounds: int, seconds: float) -> None:
    """Brings everything up, measures, takes it down."""
    echo = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, stdout=asyncio.subprocess.PIPE)
    assert echo.stdout is not None
    port = int(await echo.stdout.readline())
    with tempfile.TemporaryDirectory() as state:
        options = LocalOptions(state_dir=Path(state), sink=lambda _: None)
        async with LocalStack(options) as stack:
            pool = await asyncpg.create_pool(stack.postgres.dsn, min_size=1, max_size=8)
            await pool.execute("CREATE TABLE bench_rows (id bigserial PRIMARY KEY, body bytea)")
            headers = {"Authorization": f"Bearer {stack.keys.api_key}"}
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
                steps = {
                    "run": run_step(session, stack.url),
                    "echo": echo_step(session, f"http://127.0.0.1:{port}/"),
                    "commit": commit_step(pool),
                }
                await compare(steps, rounds, seconds)
            await pool.close()
    echo.terminate()
    await echo.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    uvloop.run(main(arguments.rounds, arguments.seconds))
