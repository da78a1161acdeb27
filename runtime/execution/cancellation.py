"""Hearing that a run is to stop while it is worked, sooner than its next lease would say."""

from __future__ import annotations

from typing import Final

from runtime.execution.callback_messages import CallbackError, CallbackRefused, Callbacks, Cancellation
from runtime.ports.clock import Clock

WAIT_SECONDS: Final = 20
"""How long the API holds one question; then it is asked again."""
ASK_SECONDS: Final = 0.75
"""From a question that was answered to the next one, at least: an API that holds enough questions, or goes away,
answers at once, and a cancellation is to be heard within a second all the same."""
RETRY_SECONDS: Final = 5.0
"""From a question that was not answered to the next one. The lease's own answers say it as well."""


async def until_stopped(callbacks: Callbacks, clock: Clock) -> Cancellation | None:
    """Waits until a run is to stop or has ended; None where the API will never say. Ends by cancellation otherwise."""
    while True:
        asked_at = clock.monotonic()
        try:
            answer = await callbacks.cancellation(wait=WAIT_SECONDS)
        except CallbackRefused:
            return None
        except CallbackError:
            pause = RETRY_SECONDS
        else:
            if answer.cancel_requested or answer.ended:
                return answer
            pause = ASK_SECONDS
        await clock.sleep(asked_at + pause - clock.monotonic())
