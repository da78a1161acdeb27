"""Python's garbage collector in a service that frees nearly everything by its counts."""

from __future__ import annotations

import gc
from typing import Final

COLLECT_EVERY: Final = 20_000
"""Containers made and not yet freed at which the collector looks at the youngest; Python's own number, 700, is reached
by every handful of requests, and was a seventh of a stream's time."""
COLLECT_OLDER_EVERY: Final = 2
"""Looks at one generation until the next older one is looked at too; Python's 10 would leave cycles of two million
containers lying. With the start's own containers out of sight, there is little in the oldest to look at."""


def hold_the_collector() -> None:
    """Called first of all: a start makes what stays, and looking for garbage in it was a tenth of its time."""
    gc.disable()


def spare_the_collector() -> None:
    """Called once, when a process serves: what was made at the start lives as long as it, and is never looked at again.
    Only what is left in a cycle waits for the collector at all.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, COLLECT_OLDER_EVERY, COLLECT_OLDER_EVERY)
    gc.enable()
