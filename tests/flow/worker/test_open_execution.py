"""The execution workload as a process opens it: with the fork server where an entry point needs one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from runtime.adapters.clock import SystemClock
from runtime.execution.flow.engine import FlowEngine
from runtime.execution.opened_engines import EngineMissing
from runtime.identity.keys import UnusableKey
from runtime.observability.metrics import Metrics
from runtime.worker.workloads.execution import ExecutionWorkload, open_execution
from tests.support.claims import settings
from tests.support.job_keys import pair


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(trust_env=False) as client:
        yield client


async def opened(session: aiohttp.ClientSession, engines: Mapping[str, str], key: str) -> ExecutionWorkload:
    wanted = settings(engines=engines, backend_pub=key)
    return await open_execution(wanted, session, SystemClock(), Metrics())


async def test_the_flow_engine_needs_no_process(session: aiohttp.ClientSession) -> None:
    workload = await opened(session, {"flow": ""}, pair().public)
    assert isinstance(workload.tools.engine("flow"), FlowEngine)
    assert workload.tools.engine("other") is None
    await workload.close()


async def test_a_lease_lapses_before_its_claim_goes_stale(session: aiohttp.ClientSession) -> None:
    workload = await opened(session, {"flow": ""}, pair().public)
    assert (workload.tools.lease.total_seconds(), workload.tools.park.total_seconds()) == (150, 180)
    await workload.close()


async def test_an_entry_point_that_is_there_is_found(session: aiohttp.ClientSession) -> None:
    workload = await opened(session, {"flow": "", "words": "textwrap:wrap"}, pair().public)
    await workload.close()


async def test_every_entry_point_that_is_missing_stops_the_start(session: aiohttp.ClientSession) -> None:
    engines = {"flow": "", "one": "no_such_module:run", "two": "textwrap:no_such_function"}
    with pytest.raises(EngineMissing, match=r"'one' is .*'two' is "):
        await opened(session, engines, pair().public)


async def test_a_key_that_is_none_stops_the_start(session: aiohttp.ClientSession) -> None:
    with pytest.raises(UnusableKey):
        await opened(session, {"flow": ""}, "")
