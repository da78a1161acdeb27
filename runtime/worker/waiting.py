"""Waiting for whichever comes first."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.execution.tasks import end, first_done
from runtime.ports.clock import Clock


async def wait_first(
    clock: Clock, seconds: float | None, *events: asyncio.Event, task: asyncio.Task[Any] | None = None
) -> None:
    """Returns when an event is set, when the task is done, or when the time is over; the caller looks which.

    Args:
        clock: measures the time.
        seconds: None means no limit; 0 or less only looks.
        events: none of them is changed.
        task: left running.
    """
    waits: list[asyncio.Task[Any]] = [asyncio.create_task(event.wait()) for event in events]
    try:
        await first_done(clock, seconds, *waits, *([task] if task is not None else []))
    finally:
        await end(*waits)
