"""The role as its own process, as an image runs it: real engines, real callbacks, real signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from runtime.contract.names import CALLBACK_CANCELLATION_PATH
from tests.support.endpoint import Call, Endpoint
from tests.support.executor_calls import accepts, flow, reports
from tests.support.served_executor import ServedExecutor, read
from tests.support.settings import executor_env

ROOT = Path(__file__).parents[3]

ROLE = """
import os, socket, sys
from runtime.process import run_role
from runtime.wiring import google
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.exit(run_role("executor", os.environ, google, listener))
"""


@contextlib.asynccontextmanager
async def role(**env: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """The executor's process and its port, once it is ready."""
    environ = {**executor_env(LOG_LEVEL="warn", **env), "PATH": ""}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ROLE, cwd=ROOT, env=environ, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            port = int(await process.stdout.readline())
            async with aiohttp.ClientSession(trust_env=False) as session:
                while True:
                    with contextlib.suppress(aiohttp.ClientError):
                        async with session.get(f"http://127.0.0.1:{port}/health/ready") as response:
                            if response.status == 200:
                                break
                    await asyncio.sleep(0.02)
        yield process, port
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def jobs() -> ServedExecutor:
    """Signs jobs; is not served."""
    return ServedExecutor()


async def test_a_flow_runs_with_its_callbacks_and_sigterm_ends_what_does_not_end(jobs: ServedExecutor) -> None:
    """BR-74, BR-107, BR-108."""
    async with Endpoint() as api, role() as (process, port):
        api.answer = accepts
        address = f"http://127.0.0.1:{api.address.port}"
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", trust_env=False) as session:
            short = jobs.job("short", "flow", spec=flow(0), payload={"n": 1}, callback_url=address)
            trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
            async with session.post("/execute", json=short, headers=trace) as response:
                answer = await response.json()
            assert (answer["status"], answer["result"], answer.get("callback_failed")) == ("completed", {"n": 1}, None)
            sent = [event["event_type"] for call in reports(api) for event in call.json.get("events", [])]
            assert (sent[0], sent[-1]) == ("log", "log")
            assert "greeting" in sent
            assert reports(api)[-1].json["status"] == "completed"
            assert {call.headers["traceparent"] for call in api.calls} == {trace["traceparent"]}, "traces go on"
            assert {call.headers["Authorization"] for call in api.calls} == {f"Bearer {short['executor_jwt']}"}

            endless = jobs.job("endless", "flow", spec=flow(60), payload=1, callback_url=address)
            async with session.post("/execute/sse", json=endless) as response:
                await response.content.readuntil(b"greeting")
                await response.content.readuntil(b"\n\n")
                idle = await asyncio.open_connection("127.0.0.1", port)
                for _ in range(2):
                    process.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.1)
                *_, last = read("/execute/sse", await response.content.read())
            async with asyncio.timeout(10):
                assert await process.wait() == 0
            idle[1].close()
        assert (last["payload"]["status"], last["payload"]["error"]) == ("failed", "executor draining")
        assert "callback_failed" not in last["payload"], "the last reports were sent before the process went"
        assert reports(api)[-1].json["status"] == "failed"


@pytest.mark.parametrize(
    ("answers", "delivered"), [([500, 500, 200], True), ([500], False)], ids=["at the third try", "never"]
)
async def test_callbacks_are_tried_again_and_what_is_lost_shows_in_the_answer(
    jobs: ServedExecutor, answers: list[int], delivered: bool
) -> None:
    """BR-74."""
    async with (
        Endpoint() as api,
        role(EXECUTOR_CALLBACK_TIMEOUT_MS="1000", EXECUTOR_BATCH_INTERVAL_MS="0") as (_, port),
    ):
        tries = iter(answers)
        last = answers[-1]

        def answer(call: Call) -> web.StreamResponse:
            status = 200 if call.path == CALLBACK_CANCELLATION_PATH else next(tries, last)
            return accepts(call) if status == 200 else web.Response(status=status)

        api.answer = answer
        job = jobs.job("r1", "flow", spec=flow(0), payload=1, callback_url=f"http://127.0.0.1:{api.address.port}")
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.post(f"http://127.0.0.1:{port}/execute", json=job) as response,
        ):
            body = json.loads(await response.text())
        assert (body["status"], body.get("callback_failed")) == ("completed", None if delivered else True)
        ends = [call for call in reports(api) if call.json.get("status") == "completed"]
        assert len(ends) == (1 if delivered else 4)
