from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.http_caller import Ground


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    one = Ground()
    yield one
    await one.stop()
