"""An address where nothing answers, not even with a refusal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import aiohttp
import pytest

from runtime.adapters.clock import SystemClock
from runtime.contract.errors import Decision
from runtime.contract.states import ProgressStatus
from runtime.execution.callback_messages import CallbackUnavailable, ProgressRequest
from runtime.execution.callbacks import CallbackRules, ExecutionCallbacks


@asynccontextmanager
async def black_hole() -> AsyncIterator[str]:
    """A listener whose queue is full: the system drops every further attempt to connect."""
    loop = asyncio.get_running_loop()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(2)]
        try:
            for each in waiting:
                each.setblocking(False)
                connecting = asyncio.ensure_future(loop.sock_connect(each, listener.getsockname()))
                await asyncio.wait({connecting}, timeout=0.2)
                if not connecting.done():
                    connecting.cancel()
                    await asyncio.wait({connecting})
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for each in waiting:
                each.close()


async def test_a_black_hole_is_a_retry_when_the_time_for_a_connection_is_over() -> None:
    """BR-53"""
    rules = CallbackRules(version="1", timeout=timedelta(seconds=0.2))
    clock = SystemClock()
    async with black_hole() as url, aiohttp.ClientSession(trust_env=False) as session:
        callbacks = ExecutionCallbacks(session, f"{url}/", "the.job.token", rules=rules, clock=clock)
        ends_at = clock.monotonic() + 1
        request = ProgressRequest(job_id="r1.1", lease_token="t", status=ProgressStatus.RUNNING)
        with pytest.raises(CallbackUnavailable) as raised:
            await callbacks.progress(request, until=lambda: ends_at)
    assert raised.value.decision is Decision.RETRY
