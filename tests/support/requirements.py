"""What a test needs of the machine: skipped with a reason where it is missing, failed where it must be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Ends the test: a failure with `HOLDFAST_REQUIRE_ALL=1`, as in CI, and a skip otherwise."""
    if os.environ.get("HOLDFAST_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason} (HOLDFAST_REQUIRE_ALL=1)", pytrace=False)
    pytest.skip(reason)
