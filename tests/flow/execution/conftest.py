"""Processes of entry points, started as a service starts them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from runtime.adapters.clock import SystemClock
from runtime.execution.process.starter import ProcessStarter

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """Log lines as data: no renderer, which would read source files while a loop runs."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
async def starter() -> AsyncIterator[ProcessStarter]:
    """A starter that finds the modules of the tests."""
    one = ProcessStarter(SystemClock(), environment={"PYTHONPATH": str(ROOT), "GIVEN": "yes"})
    await one.start()
    yield one
    await one.stop()
