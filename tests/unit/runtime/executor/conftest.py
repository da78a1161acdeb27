from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # No renderer: it would read source files while a loop runs.
    with capture_logs():
        yield
