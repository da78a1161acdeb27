"""What every test must leave behind: no blocking call in a loop, no task, no open session."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

# The same examples on every machine: a failure here is a failure there. No deadline: shared cores are slow at times.
settings.register_profile(
    "holdfast", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")


@pytest.fixture(autouse=True)
def no_blocking_call_in_the_loop() -> Iterator[None]:
    """Raises where our code makes a blocking call while a loop runs."""
    with blockbuster_ctx(scanned_modules=["runtime", "sandbox"]) as blockbuster:
        # The end of grpc.aio joins its polling thread, in whatever code drops the last channel or server.
        blockbuster.functions["threading.Lock.acquire"].can_block_in("threading.py", {"_wait_for_tstate_lock"})
        yield


@pytest.fixture
async def _no_leaked_task() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not leaked, f"tasks left running: {sorted(task.get_name() for task in leaked)}"


@pytest.fixture(autouse=True)
def no_leaked_task(request: pytest.FixtureRequest) -> None:
    """Fails an asynchronous test that leaves a task behind."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_no_leaked_task")
