"""What a role of production is given of the world outside."""

from __future__ import annotations

from runtime.adapters.clock import SystemClock
from runtime.contract.settings.executor import ExecutorSettings
from runtime.wiring import google
from tests.support.settings import executor_env


async def test_no_run_waits_for_another_ones_connection() -> None:
    """Each holds one open as long as it goes on, for its cancellation or for its stream."""
    async with google(ExecutorSettings.from_env(executor_env()), SystemClock()) as outside:
        assert outside.session.connector is not None
        assert outside.session.connector.limit == 0
        assert outside.session.connector.limit_per_host == 0
