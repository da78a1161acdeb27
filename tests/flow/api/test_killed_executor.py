"""An executor that is a process of its own, and is killed or told to stop while its run is streamed and waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.cloud_run.fork_launcher import default_launcher
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.line import Order
from sandbox.network import Address, Hosts
from tests.support.executor_calls import flow
from tests.support.served_pair import WaitedApi, events
from tests.support.settings import executor_env

SSE = "text/event-stream"


@pytest.fixture
async def with_process(tmp_path: Path) -> AsyncIterator[tuple[WaitedApi, int]]:
    """An API and the process of its executor."""
    hosts, listener = Hosts(), socket.socket()
    listener.bind(("127.0.0.1", 0))
    api = WaitedApi(listener.getsockname()[1])
    await api.start()
    hosts.add("api.example", Address(port=api.port))
    config = InstanceConfig(role="executor", service="executor", instance="e-1", account="e@p", hosts=hosts)
    async with default_launcher() as launcher:
        child = await launcher.launch(Order(config, executor_env(LOG_LEVEL="error"), listener, tmp_path))
        listener.close()
        try:
            yield api, child.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            await child.wait()
            child.close()
            await api.stop()


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [(signal.SIGKILL, "executor_broken", 502), (signal.SIGTERM, "executor draining", 503)],
    ids=["killed", "told to stop"],
)
async def test_a_run_ends_once_when_its_executor_goes(
    with_process: tuple[WaitedApi, int], number: signal.Signals, error: str, code: int
) -> None:
    """BR-67, BR-107."""
    api, pid = with_process
    more = {"engine": "flow", "flow": flow(60), "input": 1}
    waiting = asyncio.create_task(api.run("waiting", **more))
    async with asyncio.timeout(50), api.post(api.wanted("streamed", **more), SSE) as response:
        data = await response.content.readuntil(b"greeting")
        await api.spoke("waiting")
        os.kill(pid, number)
        found = events(data + await response.content.read(), SSE)
        status, answer = await waiting
    (last,) = [event["payload"] for event in found if event["event_type"] == "completed"]
    assert found[-1]["payload"] == last
    assert (last["status"], last["status_code"], last["error"].split(":")[0]) == ("failed", code, error)
    assert (status, answer["state"], answer["status_code"]) == (200, "failed", code)
    for run_id in ("waiting", "streamed"):
        record = await api.record(run_id)
        assert (record["state"], record["failure_class"]) == ("failed", "dispatch_error")
        ends = [entry for entry in record["history"] if entry["state"] == "failed"]
        assert len(ends) == 1
