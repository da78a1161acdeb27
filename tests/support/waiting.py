"""Waiting for something that another process or task brings about; pytest's timeout is the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - another process sets no event of ours
        await asyncio.sleep(0.01)
