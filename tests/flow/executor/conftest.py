from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.served_executor import ServedExecutor


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged. No renderer: it would read source files while a loop runs."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture
async def served(log_lines: list[MutableMapping[str, Any]]) -> AsyncIterator[ServedExecutor]:
    """An executor on a port; when the test is over, nothing of it is left and nothing was an error of its own."""
    executor = ServedExecutor()
    await executor.start()
    yield executor
    await executor.stop()
    assert (executor.working, executor.engines_stopped) == (0, 1)
    assert all(engine.running == 0 for engine in executor.engines.values())
    assert executor.count("executing_runs") == executor.count("http_requests_in_flight") == 0
    assert executor.count("http_requests_total", route="/execute/sse", method="POST", status="500") == 0
    faults = {"request_failed", "stream_broken", "execution_failed"}
    assert [line for line in log_lines if line["event"] in faults] == []
