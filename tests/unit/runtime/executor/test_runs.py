"""What is left of a run once it has ended: its stream, for a while, and nothing of its job."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

from runtime.adapters.clock import SystemClock
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.states import ProgressStatus
from runtime.executor.channel import Channel
from runtime.executor.deps import ExecutorDeps
from runtime.executor.intake import Accepted
from runtime.executor.runs import HELD_ENDED, Runs
from runtime.identity.job_token import JobVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.engine import Isolation, RunContext, RunResult
from runtime.server import Lifecycle
from tests.support.executor_bench import RecordedApi
from tests.support.job_keys import pair
from tests.support.run_api import job
from tests.support.settings import executor_env


class Large(dict[str, Any]):
    """A part of a job that can be watched."""


class Completes:
    """An engine that forgets what it was given, and gives something large."""

    isolation = Isolation.INLINE

    def __init__(self) -> None:
        self.made: weakref.ref[Large] | None = None

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        return []

    async def run(self, context: RunContext) -> RunResult:
        output = Large(text="x")
        self.made = weakref.ref(output)
        return RunResult(ProgressStatus.COMPLETED, output=output)


async def _nothing() -> None:
    return


class Bench:
    def __init__(self) -> None:
        self.clock = SystemClock()  # a moved one keeps what once waited on it; nothing waits here
        self.engine = Completes()
        settings = ExecutorSettings.from_env(executor_env())
        self.runs = Runs(
            ExecutorDeps(
                settings=settings,
                verifier=JobVerifier(pair().keys.public_pem, settings.backend_kid),
                connect=lambda _job: RecordedApi(),
                engine=lambda _name: self.engine,
                clock=self.clock,
                lifecycle=Lifecycle(self.clock),
                metrics=Metrics(),
                stop_engines=_nothing,
            )
        )

    async def end(self, job_id: str, value: object = None) -> None:
        latest = self.clock.monotonic() + 3600
        accepted = Accepted(job=job(job_id=job_id, input=value), lease_token="lease", latest=latest)
        await self.runs.start(accepted, Channel(self.clock)).over


async def test_an_ended_stream_holds_nothing_of_its_job() -> None:
    bench = Bench()
    value = Large(text="x")
    given = weakref.ref(value)
    await bench.end("j1", value)
    held = bench.runs.held("j1")
    assert held is not None
    assert held.channel.ended
    del value
    gc.collect()
    assert given() is None, "its input would be held for a minute"
    assert bench.engine.made is not None
    assert bench.engine.made() is None, "its result is in the channel already"


async def test_ended_streams_are_let_go_of_without_another_call() -> None:
    bench = Bench()
    for number in range(HELD_ENDED + 20):
        await bench.end(f"j{number}")
    assert bench.runs.kept == HELD_ENDED
    assert bench.runs.held("j0") is None
    assert bench.runs.held(f"j{HELD_ENDED + 19}") is not None
