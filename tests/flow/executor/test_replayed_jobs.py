"""A job that is sent once more when its run has ended: the API's word ends it, and the record stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from runtime.api.executor_client import ExecutorClient, ExecutorStream
from runtime.contract.states import ProgressStatus
from runtime.executor.app import DEPS
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_engine import until_cancelled
from tests.support.served_executor import ServedExecutor
from tests.support.served_pair import served_pair


async def says_one(context: RunContext) -> RunResult:
    await context.emit("tick", 1)
    return RunResult(ProgressStatus.COMPLETED, output=1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every job that an API sends."""
    jobs: list[bytes] = []
    opened = ExecutorClient.opened

    @asynccontextmanager
    async def seen(client: ExecutorClient, job: bytes, longest: timedelta) -> AsyncIterator[ExecutorStream]:
        jobs.append(job)
        async with opened(client, job, longest) as stream:
            yield stream

    monkeypatch.setattr(ExecutorClient, "opened", seen)
    return jobs


async def test_a_job_whose_run_has_ended_works_until_the_api_answers_and_changes_nothing(sent: list[bytes]) -> None:
    """An instance that never saw it asks nobody before it begins; its first report is answered with the truth."""
    async with served_pair() as (api, executor):
        executor.engine("waits", says_one)
        assert (await api.run(engine="waits"))[1]["state"] == "succeeded"
        before = await api.record()
        other = ServedExecutor(connect=executor.app[DEPS].connect)
        engine = other.engine("waits", until_cancelled)
        await other.start()
        *_, last = await other.events("/execute/stream", sent[0], {"Connection": "close"})
        assert (last["payload"]["status"], last["payload"]["error"].partition(":")[0]) == ("failed", "lease lost")
        assert last["payload"]["callback_failed"] is True
        assert engine.running == 0
        assert await api.record() == before
    await other.stop()
