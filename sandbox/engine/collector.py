"""Keeps the garbage collector from the objects of Google's SDK."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected meanwhile.

    Google's SDK makes hundreds of thousands of objects that stay; looking at them again and again is a sixth of the
    time of a run, and more of it than the program's own on the real engine.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
