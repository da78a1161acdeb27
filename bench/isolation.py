"""What a job that never waits does to the others: event delays of streams, and answers of the health route.

    python bench/isolation.py [--seconds 20] [--streams 50]

The executor as its image runs it, with streams of the flow engine that emit ten events a second each; once by
themselves, once beside a job that keeps one CPU busy all the time. The delay of an event is from its own timestamp to
its arrival at the reader, which is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from runtime.contract.settings.executor import ExecutorSettings
from runtime.identity.job_token import JobSigner
from runtime.identity.keys import environment_value, generate_job_keys

ROOT: Final = Path(__file__).resolve().parents[1]
EVENT_GOAL_MS: Final = 250
HEALTH_GOAL_MS: Final = 100
TICKER: Final = {
    "start": "wait",
    "nodes": {
        "wait": {"type": "sleep", "seconds": 0.1, "next": "tell"},
        "tell": {"type": "emit", "event": "tick", "payload": "$.input", "next": "wait"},
    },
}
ROLE: Final = """
import os, socket, sys
from runtime.process import run_role
from runtime.wiring import google
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.exit(run_role("executor", os.environ, google, listener))
"""


class Jobs:
    """Signed jobs.

    Args:
        callback_url: where the executor reports them.
    """

    def __init__(self, callback_url: str) -> None:
        keys = generate_job_keys()
        settings = ExecutorSettings(
            backend_pub=environment_value(keys.public_pem), engines={"flow": "", "spin": "bench.spin:run"}
        )
        self.environ = settings.to_env()
        self._signer = JobSigner(keys.private_pem, settings.backend_kid)
        self._callback_url = callback_url

    def body(self, run_id: str, engine: str, spec: object, value: object, seconds: float) -> dict[str, Any]:
        job: dict[str, Any] = {
            "job_id": f"{run_id}.1", "run_id": run_id, "app_id": "bench", "user_id": "u", "engine": engine,
            "spec": spec, "payload": value, "timeout_ms": round(1000 * seconds), "max_attempts": 1,
            "execution_mode": "stream", "callback_url": self._callback_url, "lease_token": "lease",
        }  # fmt: skip
        now = datetime.now(UTC)
        job["executor_jwt"] = self._signer.sign(job, subject="u", lifetime=timedelta(hours=1), now=now)
        return job


async def accept(request: web.Request) -> web.Response:
    """Answers callbacks as the API does."""
    body = await request.json()
    if "events" in body:
        return web.json_response({"accepted": True, "next_sequence": body["events"][-1]["sequence"] + 1})
    states = {"running": "running", "completed": "succeeded", "timeout": "expired"}
    answer = {"accepted": True, "status": states.get(body["status"], body["status"]), "lease_acquired": True}
    return web.json_response({**answer, "attempt": 1, "next_sequence": 0, "cancel_requested": False})


async def stream(session: aiohttp.ClientSession, job: dict[str, Any], delays: list[float]) -> None:
    """Reads a stream of ticks to its end."""
    event: dict[str, Any] = {}
    async with session.post("/execute/stream", json=job) as response:
        assert response.status == 200, await response.text()
        async for line in response.content:
            event = json.loads(line)
            if event["event_type"] == "tick":
                delays.append(1000 * (time.time() - datetime.fromisoformat(event["timestamp"]).timestamp()))
    assert event.get("event_type") == "completed", event


async def health(session: aiohttp.ClientSession, times: list[float]) -> None:
    """Asks twenty times a second until it is cancelled."""
    while True:
        began = time.perf_counter()
        async with session.get("/health/live") as response:
            assert response.status == 200
        times.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(0.05)


async def measure(
    session: aiohttp.ClientSession, jobs: Jobs, options: argparse.Namespace, label: str, *, busy: bool
) -> tuple[list[float], list[float]]:
    delays: list[float] = []
    times: list[float] = []
    asking = asyncio.create_task(health(session, times))
    work = [
        stream(session, jobs.body(f"{label}-{number}", "flow", TICKER, number, options.seconds), delays)
        for number in range(options.streams)
    ]
    if busy:
        work.append(stream(session, jobs.body("spin", "spin", {}, options.seconds, options.seconds + 30), []))
    await asyncio.gather(*work)
    asking.cancel()
    await asyncio.wait({asking})
    return delays, times


def p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--streams", type=int, default=50)
    options = parser.parse_args()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/{path:.*}", accept)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    jobs = Jobs(f"http://127.0.0.1:{runner.addresses[0][1]}")
    environ = {**jobs.environ, "LOG_LEVEL": "error", "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ROLE, cwd=ROOT, env=environ, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector, timeout=timeout) as session:
            await asyncio.sleep(3)
            await measure(session, jobs, argparse.Namespace(seconds=1, streams=2), "warm", busy=False)
            for busy in (False, True):
                label = "beside a busy job" if busy else "by themselves"
                delays, times = await measure(session, jobs, options, label.split(maxsplit=1)[0], busy=busy)
                print(
                    f"{label:<18} {len(delays)} events of {options.streams} "
                    f"streams: delay median {statistics.median(delays):.1f} ms, p99 {p99(delays):.1f} ms "
                    f"(goal {EVENT_GOAL_MS}); health p99 {p99(times):.1f} ms (goal {HEALTH_GOAL_MS})"
                )
    finally:
        process.terminate()
        await process.wait()
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
