"""The role as an instance of the sandbox: started as its image would be, its callbacks carried to this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

import aiohttp

from sandbox.cloud_run.fork_launcher import default_launcher
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.line import Order
from sandbox.network import Hosts
from tests.support.endpoint import Endpoint
from tests.support.executor_calls import accepts, flow, reports
from tests.support.served_executor import ServedExecutor
from tests.support.settings import executor_env


async def test_an_instance_needs_neither_a_database_nor_a_broker(tmp_path: Path) -> None:
    hosts, listener = Hosts(), socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with Endpoint() as api, default_launcher() as launcher:
        api.answer = accepts
        hosts.add("api.example", api.address)
        config = InstanceConfig(role="executor", service="executor", instance="e-1", account="e@p", hosts=hosts)
        order = Order(config, executor_env(LOG_LEVEL="error"), listener, tmp_path)
        child = await launcher.launch(order)
        listener.close()
        try:
            job = ServedExecutor().job(engine="flow", spec=flow(0), payload=7)
            body = await _answer(f"{address}/execute", job)
            assert (body["status"], body["result"], body.get("callback_failed")) == ("completed", 7, None)
            assert reports(api)[-1].json["status"] == "completed"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
            async with asyncio.timeout(15):
                assert await child.wait() == 0
            child.close()


async def _answer(url: str, job: object) -> dict[str, object]:
    async with asyncio.timeout(30), aiohttp.ClientSession(trust_env=False) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.post(url, json=job) as response:
                    answer: dict[str, object] = await response.json()
                    return answer
            await asyncio.sleep(0.05)
