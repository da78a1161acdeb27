"""The executor as its settings open it."""

from __future__ import annotations

import aiohttp
import pytest

from runtime.adapters.clock import SystemClock
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID
from runtime.executor.opened import open_executor
from runtime.identity.job_token import JobRefused
from runtime.observability.metrics import Metrics
from runtime.server import Lifecycle
from tests.support.job_keys import pair
from tests.support.served_executor import ServedExecutor
from tests.support.settings import executor_env


async def test_a_job_is_accepted_under_the_key_before_where_the_settings_name_it_and_only_there() -> None:
    clock = SystemClock()
    job = ServedExecutor(clock).job("signed-before-the-rotation")
    rotated = executor_env(BACKEND_PUB=pair("second").public, BACKEND_KID="k2")
    both = {**rotated, "BACKEND_PREVIOUS_PUB": pair().public, "BACKEND_PREVIOUS_KID": DEFAULT_KEY_ID}
    async with aiohttp.ClientSession(trust_env=False) as session:
        opened = [
            await open_executor(
                ExecutorSettings.from_env(env), session, clock=clock, lifecycle=Lifecycle(clock), metrics=Metrics()
            )
            for env in (both, rotated)
        ]
    knows_both, knows_one = opened
    assert knows_both.verifier.verify(job, clock.now()).run_id == "signed-before-the-rotation"
    with pytest.raises(JobRefused, match="'k2'"):
        knows_one.verifier.verify(job, clock.now())
    for deps in opened:
        await deps.stop_engines()
