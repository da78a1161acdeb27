"""Ending tasks so that nothing of them is left."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.ports.clock import Clock


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks and returns only when all of them are done; their outcomes are theirs to report.

    A cancellation of the caller meanwhile does not cut this short: it is raised once nothing is left.
    """
    for task in tasks:
        task.cancel()
    try:
        if not all(task.done() for task in tasks):
            await settled(*tasks)
    finally:
        for task in tasks:
            if not task.cancelled():
                # Seen, so that the loop does not report it as never retrieved.
                task.exception()


async def settled(*tasks: asyncio.Task[Any]) -> None:
    """Waits until all tasks are done, cancelling none; a cancellation of the caller is raised after that."""
    interrupted = False
    pending = set(tasks)
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError:
            interrupted = True
            pending = {task for task in pending if not task.done()}
    if interrupted:
        raise asyncio.CancelledError


async def first_done(clock: Clock, seconds: float | None, *tasks: asyncio.Future[Any]) -> bool:
    """Waits until one of the tasks is done; False where `seconds` were over first. No task is changed."""
    woken = asyncio.get_running_loop().create_future()

    def wake(_done: object) -> None:
        if not woken.done():
            woken.set_result(None)

    if not any(task.done() for task in tasks):
        for task in tasks:
            task.add_done_callback(wake)
        try:
            async with clock.timeout(seconds):
                await woken
        except TimeoutError:
            pass
        finally:
            for task in tasks:
                task.remove_done_callback(wake)
    return any(task.done() for task in tasks)
