"""Waiting for whichever comes first."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.execution.signal import Signal
from runtime.ports.clock import Clock


async def wait_first(
    clock: Clock, seconds: float | None, *events: Signal, task: asyncio.Task[Any] | None = None
) -> None:
    """Returns when an event is set, when the task is done, or when the time is over; the caller looks which.

    Args:
        clock: measures the time.
        seconds: None means no limit; 0 or less gives the loop a turn and only looks.
        events: none of them is changed.
        task: left running.
    """
    if any(event.is_set() for event in events) or (task is not None and task.done()):
        return
    if seconds is not None and seconds <= 0:
        await clock.sleep(0)
        return
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_done: object = None) -> None:
        if not first.done():
            first.set_result(None)

    for event in events:
        event.call(wake)
    if task is not None:
        task.add_done_callback(wake)
    timer = None if seconds is None else clock.call_later(seconds, wake)
    try:
        await first
    finally:
        if timer is not None:
            timer.cancel()
        for event in events:
            event.forget(wake)
        if task is not None:
            task.remove_done_callback(wake)
