from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.served_worker import ServedWorker


@pytest.fixture
async def served() -> AsyncIterator[ServedWorker]:
    worker = ServedWorker()
    await worker.start()
    yield worker
    await worker.stop()


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Every line that the test causes; no renderer, which would read source files while a loop runs."""
    with capture_logs() as lines:
        yield lines
