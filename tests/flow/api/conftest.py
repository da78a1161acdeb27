from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from structlog.testing import capture_logs

from tests.support.served_api import ServedApi


@pytest.fixture
async def served() -> AsyncIterator[ServedApi]:
    api = ServedApi()
    await api.start()
    yield api
    await api.stop()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # No renderer: it would read source files while a loop runs.
    with capture_logs() as lines:
        yield
    assert [line for line in lines if line["event"] == "execution_failed"] == []
