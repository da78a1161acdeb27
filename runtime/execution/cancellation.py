"""Hearing that a run is to stop while it is worked, sooner than its next lease would say."""

from __future__ import annotations

from typing import Final

from runtime.execution.callback_messages import CallbackError, CallbackRefused, Callbacks, Cancellation
from runtime.ports.clock import Clock

WAIT_SECONDS: Final = 20
"""How long the API holds one question; then it is asked again."""
LEAST_SECONDS: Final = 1.0
"""From one question to the next at least, however soon it was answered."""
RETRY_SECONDS: Final = 5.0
"""The same where it was not answered. The lease's own answers say it as well."""


async def until_stopped(callbacks: Callbacks, clock: Clock) -> Cancellation | None:
    """Waits until a run is to stop or has ended; None where the API will never say. Ends by cancellation otherwise."""
    while True:
        asked_at, pause = clock.monotonic(), LEAST_SECONDS
        try:
            answer = await callbacks.cancellation(wait=WAIT_SECONDS)
        except CallbackRefused:
            return None
        except CallbackError:
            pause = RETRY_SECONDS
        else:
            if answer.cancel_requested or answer.ended:
                return answer
        await clock.sleep(asked_at + pause - clock.monotonic())
