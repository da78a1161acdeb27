"""The life of a real process: signals at every moment, and a drain that waits for work and not for connections."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

ROOT = Path(__file__).parents[2]

SERVICE = """
import asyncio, sys
from aiohttp import web
from runtime.adapters.clock import SystemClock
from runtime.observability.metrics import Metrics
from runtime.runner import WebService, add_health_routes
from runtime.server import Lifecycle, serve

async def main(start_seconds, work_seconds):
    lifecycle = Lifecycle(SystemClock())
    app = web.Application()
    add_health_routes(app, lifecycle, Metrics(), "test")

    async def starting(app):
        print("starting", flush=True)
        await asyncio.sleep(start_seconds)

    async def job():
        await asyncio.sleep(work_seconds)
        print("work done", flush=True)

    async def work(request):
        task = asyncio.create_task(job())
        lifecycle.track(task)
        await asyncio.shield(task)
        return web.Response(text="done")

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.05)

    app.on_startup.append(starting)
    app.router.add_post("/work", work)
    app.router.add_get("/stream", stream)
    import socket
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    service = WebService(app)
    await serve(service, lifecycle, port=port, listener=listener, on_bound=lambda: print("bound to", port, flush=True))

asyncio.run(main(*map(float, sys.argv[1:])))
"""


async def _service(start: float, work: float) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, str(start), str(work), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )


async def _line(process: asyncio.subprocess.Process, wanted: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        while True:
            line = (await process.stdout.readline()).decode().strip()
            if wanted in line:
                return line.rpartition(" ")[2]
            assert line, f"the service ended before it said {wanted!r}"


async def _exit_code(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(10):
        await process.communicate()
    return process.returncode if process.returncode is not None else -1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_a_slow_start_ends_the_start(number: signal.Signals) -> None:
    """BR-108 (iv)"""
    process = await _service(start=60, work=0)
    await _line(process, "starting")
    process.send_signal(number)
    assert await _exit_code(process) == 0


async def test_a_drain_waits_for_work_whose_caller_has_gone_and_two_signals_are_as_one() -> None:
    """BR-108, BR-110"""
    process = await _service(start=0, work=2)
    port = await _line(process, "bound to")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(TimeoutError):
            await session.post(f"http://127.0.0.1:{port}/work", timeout=aiohttp.ClientTimeout(total=0.3))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    await _line(process, "work done")
    assert await _exit_code(process) == 0


async def test_an_open_stream_and_an_idle_connection_do_not_hold_up_the_end() -> None:
    """BR-107 (a), (d)"""
    process = await _service(start=0, work=0)
    port = await _line(process, "bound to")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.get("/health/ready") as response:
            assert response.status == 200
        async with session.get("/stream") as response:
            await response.content.readany()
            process.send_signal(signal.SIGTERM)
            assert await _exit_code(process) == 0
