"""The real executor application; its API is a stub that takes every report at once, so that nothing leaves the process.

    python -m bench.ours.executor PORT

Engines: `flow` is the built-in one, `ticks` emits as many events as its input says as fast as it may, `paced` emits
them with a pause and says in each when it was made.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Mapping
from typing import Final

import uvloop

from bench.peers.events import PAYLOAD
from bench.setup import Setup
from runtime.adapters.clock import SystemClock
from runtime.collector import spare_the_collector
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.states import STATE_OF_PROGRESS, ProgressStatus
from runtime.execution.callback_messages import Cancellation, EventsRequest, ProgressAnswer, ProgressRequest, Until
from runtime.execution.flow.engine import FlowEngine
from runtime.execution.flow.http_client import GuardedHttpClient
from runtime.executor.app import create_app
from runtime.executor.deps import ExecutorDeps
from runtime.identity.job_token import JobVerifier
from runtime.identity.keys import environment_value
from runtime.observability import logs
from runtime.observability.metrics import Metrics
from runtime.ports.engine import Engine, Isolation, RunContext, RunResult
from runtime.runner import WebService
from runtime.server import Lifecycle, serve


class NullApi:
    """Takes every report."""

    def __init__(self) -> None:
        self._next = 0

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        return ProgressAnswer(
            accepted=True, status=STATE_OF_PROGRESS[request.status], lease_acquired=True, next_sequence=self._next
        )

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        self._next = request.events.first + len(request.events)
        return self._next

    async def cancellation(self, *, wait: int) -> Cancellation:
        await asyncio.sleep(wait)
        return Cancellation(cancel_requested=False, ended=False)


class Ticks:
    """Emits as fast as it may."""

    isolation = Isolation.INLINE

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        return []

    async def run(self, context: RunContext) -> RunResult:
        emit = context.emit
        for _ in range(context.input if isinstance(context.input, int) else 0):
            await emit("tick", PAYLOAD)
        return RunResult(ProgressStatus.COMPLETED)


class Paced(Ticks):
    """Emits with a pause."""

    async def run(self, context: RunContext) -> RunResult:
        wanted = context.input if isinstance(context.input, dict) else {}
        for _ in range(wanted["count"]):
            await asyncio.sleep(wanted["pause"])
            await context.emit("tick", {"made": time.perf_counter_ns(), **PAYLOAD})
        return RunResult(ProgressStatus.COMPLETED)


async def main(port: int) -> None:
    setup, clock = Setup.read(), SystemClock()
    settings = ExecutorSettings(backend_pub=environment_value(setup.job_public), backend_kid=setup.job_kid)
    engines: Final[dict[str, Engine]] = {
        "flow": FlowEngine(clock, GuardedHttpClient()), "ticks": Ticks(), "paced": Paced()
    }  # fmt: skip
    lifecycle = Lifecycle(clock)

    async def nothing() -> None:
        return

    app = create_app(
        ExecutorDeps(
            settings=settings,
            verifier=JobVerifier(setup.job_public, setup.job_kid),
            connect=lambda _job: NullApi(),
            engine=engines.get,
            clock=clock,
            lifecycle=lifecycle,
            metrics=Metrics(),
            stop_engines=nothing,
        )
    )
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    await serve(WebService(app), lifecycle, port=port, listener=listener, on_bound=spare_the_collector)


if __name__ == "__main__":
    logs.configure("executor", for_good=True)
    uvloop.run(main(int(sys.argv[1])))
