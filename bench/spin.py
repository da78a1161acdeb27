"""A job that keeps one CPU busy: what an engine of a user's may do, and what must disturb nobody else."""

from __future__ import annotations

import time
from typing import Any


def run(job: Any) -> int:
    """Counts for `input` seconds, without ever waiting."""
    turns, end = 0, time.monotonic() + job.input
    while time.monotonic() < end:
        turns += 1
    return turns
