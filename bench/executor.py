"""Streams of the executor against a plain aiohttp handler that writes once for each event.

    python bench/executor.py [--rounds 5] [--events 20000]

Each runs in a process of its own, in turn, several rounds; what counts is the server's CPU time for each event, as a
ratio. `channel` is the executor's way from an encoded event to the socket alone, which is what the peer does too;
`executor` is a whole run: besides, it checks and encodes each event and reports it to the API in batches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog
import uvloop
from aiohttp import web

from runtime.adapters.clock import SystemClock
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.states import STATE_OF_PROGRESS, ProgressStatus
from runtime.execution.callback_messages import EventsRequest, ProgressAnswer, ProgressRequest, Until
from runtime.executor.app import create_app
from runtime.executor.channel import Channel
from runtime.executor.deps import ExecutorDeps
from runtime.executor.ending import Ending, ending
from runtime.executor.stream import Reading, StreamForm, StreamWriter
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.keys import environment_value, generate_job_keys
from runtime.observability.metrics import Metrics
from runtime.ports.engine import Isolation, RunContext, RunResult
from runtime.server import Lifecycle

ROOT: Final = Path(__file__).parents[1]
PAYLOAD: Final = {"text": "x" * 100, "n": 1}
"""With the fields of an event about 200 bytes."""
NOW: Final = "2026-01-01T00:00:00.000Z"


class NullApi:
    """Takes every callback."""

    def __init__(self) -> None:
        self._next = 0

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        return ProgressAnswer(
            accepted=True, status=STATE_OF_PROGRESS[request.status], lease_acquired=True, next_sequence=self._next
        )

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        self._next = request.events[-1].sequence + 1
        return self._next


class Emitter:
    """An engine that emits as fast as it may."""

    isolation = Isolation.INLINE

    def check(self, spec: object) -> list[tuple[str, str]]:
        return []

    async def run(self, context: RunContext) -> RunResult:
        count = context.input if isinstance(context.input, int) else 0
        for _ in range(count):
            await context.emit("tick", PAYLOAD)
        return RunResult(ProgressStatus.COMPLETED)


def executor() -> tuple[web.Application, Callable[[str, int], dict[str, Any]]]:
    """The executor, and what makes its jobs."""
    keys, clock = generate_job_keys(), SystemClock()
    settings = ExecutorSettings(backend_pub=environment_value(keys.public_pem), batch_interval=timedelta(seconds=1))
    signer = JobSigner(keys.private_pem, settings.backend_kid)
    engine = Emitter()

    async def nothing() -> None:
        return

    app = create_app(
        ExecutorDeps(
            settings=settings,
            verifier=JobVerifier(keys.public_pem, settings.backend_kid),
            connect=lambda _job: NullApi(),
            engine=lambda _name: engine,
            clock=clock,
            lifecycle=Lifecycle(clock),
            metrics=Metrics(),
            stop_engines=nothing,
        )
    )

    def job(run_id: str, count: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "job_id": f"{run_id}.1", "run_id": run_id, "app_id": "a", "user_id": "u", "engine": "e", "spec": {},
            "payload": count, "timeout_ms": 600_000, "max_attempts": 1, "execution_mode": "stream",
            "callback_url": "https://api.example",
        }  # fmt: skip
        token = signer.sign(body, subject="u", lifetime=timedelta(hours=1), now=clock.now())
        return {**body, "executor_jwt": token}

    return app, job


def peer() -> tuple[web.Application, Callable[[str, int], dict[str, Any]]]:
    """A handler as it is usually written."""

    async def stream(request: web.Request) -> web.StreamResponse:
        count = (await request.json())["payload"]
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        payload = json.dumps(PAYLOAD)
        for number in range(count):
            event = f'{{"event_id":"{number}","event_type":"tick","payload":{payload},"timestamp":"{NOW}"}}\n'
            await response.write(event.encode())
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/execute/stream", stream)
    return app, lambda _run_id, count: {"payload": count}


def channel() -> tuple[web.Application, Callable[[str, int], dict[str, Any]]]:
    """The executor's channel and writer, fed with encoded events."""
    clock = SystemClock()
    writer, payload = StreamWriter(clock, Metrics()), json.dumps(PAYLOAD).encode()

    async def produce(events: Channel, count: int) -> Ending:
        for _ in range(count):
            await events.put("tick", payload, NOW)
        ended = ending("r", RunResult(ProgressStatus.COMPLETED), 0)
        events.say("completed", ended.last_event(), NOW, last=True)
        return ended

    async def stream(request: web.Request) -> web.StreamResponse:
        count, events = (await request.json())["payload"], Channel(clock)
        reading = Reading(
            channel=events,
            reader=events.attach(),
            run=asyncio.create_task(produce(events, count)),
            form=StreamForm.NDJSON,
        )
        return await writer.answer(request, reading)

    app = web.Application()
    app.router.add_post("/execute/stream", stream)
    return app, lambda _run_id, count: {"payload": count}


SIDES: Final = {"executor": executor, "channel": channel, "peer": peer}


async def serve(side: str, events: int, streams: int) -> None:
    """Serves one side, prints the jobs, and at the end its CPU time for each event, in microseconds."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda _l, _m, _e: ""])
    app, job = SIDES[side]()
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    jobs = [job(f"r{number}", events // streams) for number in range(streams + 1)]
    sys.stdout.write(json.dumps({"port": runner.addresses[0][1], "jobs": jobs}) + "\n")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.readline)
    began = time.process_time()
    sys.stdout.write("measuring\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.readline)
    sys.stdout.write(f"{1e6 * (time.process_time() - began) / events}\n")
    sys.stdout.flush()
    await runner.cleanup()


async def measure(side: str, events: int, streams: int) -> float:
    """CPU microseconds of the server for each event."""
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else is to run meanwhile
        [sys.executable, __file__, "--serve", side, "--events", str(events), "--streams", str(streams)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{told['port']}", trust_env=False) as session:
            warm, *jobs = told["jobs"]
            await _drained(session, warm)
            server.stdin.write("\n")
            server.stdin.flush()
            server.stdout.readline()
            await asyncio.gather(*(_drained(session, job) for job in jobs))
            server.stdin.write("\n")
            server.stdin.flush()
        return float(server.stdout.readline())


async def _drained(session: aiohttp.ClientSession, job: object) -> None:
    async with session.post("/execute/stream", json=job) as response:
        assert response.status == 200, await response.text()
        async for _ in response.content.iter_chunked(2**20):
            pass


def main() -> None:
    """Measures and prints medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--serve", choices=SIDES)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve, options.events, options.streams))
        return
    for streams in (1, 100):
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(options.rounds):
            for side in SIDES:
                times[side].append(uvloop.run(measure(side, options.events, streams)))
        medians = {side: statistics.median(values) for side, values in times.items()}
        ratios = ", ".join(f"{side} {medians[side] / medians['peer']:.2f}" for side in ("channel", "executor"))
        shown = ", ".join(f"{side} {value:.1f} us/event" for side, value in medians.items())
        sys.stdout.write(f"{streams} streams: {shown}; of the peer's time: {ratios}\n")


if __name__ == "__main__":
    main()
