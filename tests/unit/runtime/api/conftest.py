"""Log lines as data: no renderer, which would read source files while a loop runs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog.testing

Lines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[Lines]:
    """What was logged."""
    with structlog.testing.capture_logs() as lines:
        yield lines
