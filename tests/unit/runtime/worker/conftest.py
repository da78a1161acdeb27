from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from tests.support.claims import ClaimsBench
from tests.support.deliveries import DeliveryBench


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bench(clock: ManualClock) -> ClaimsBench:
    return ClaimsBench(clock)


@pytest.fixture
def deliveries(clock: ManualClock) -> DeliveryBench:
    return DeliveryBench(clock)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Every line that the test causes."""
    with capture_logs() as lines:
        yield lines
