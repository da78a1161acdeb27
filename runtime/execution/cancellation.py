"""Hearing that a run is to stop while it is worked, sooner than its next lease would say."""

from __future__ import annotations

from typing import Final

from runtime.execution.callback_messages import CallbackError, CallbackRefused, Callbacks, Cancellation
from runtime.ports.clock import Clock

WAIT_SECONDS: Final = 20
"""How long the API holds one question; then it is asked again."""
HELD_SECONDS: Final = 1.0
"""An answer that comes sooner was not held: the API is busy, or goes away."""
RETRY_SECONDS: Final = 5.0
"""From such an answer's question to the next one, or from one that was not answered. The lease's own answers say it
as well."""


async def until_stopped(callbacks: Callbacks, clock: Clock) -> Cancellation | None:
    """Waits until a run is to stop or has ended; None where the API will never say. Ends by cancellation otherwise."""
    while True:
        asked_at = clock.monotonic()
        try:
            answer = await callbacks.cancellation(wait=WAIT_SECONDS)
        except CallbackRefused:
            return None
        except CallbackError:
            held = False
        else:
            if answer.cancel_requested or answer.ended:
                return answer
            held = clock.monotonic() - asked_at >= HELD_SECONDS
        if not held:
            await clock.sleep(asked_at + RETRY_SECONDS - clock.monotonic())
