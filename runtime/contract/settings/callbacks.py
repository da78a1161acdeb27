"""Settings of the callbacks of a running job, the same for worker and executor."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypedDict

from runtime.contract import limits
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import in_milliseconds

LONGEST_MILLISECONDS: Final = 2**31 - 1
"""About 24 days: more than any wait here, and safe in every timer."""
MOST_RETRIES: Final = 2**32 - 1
"""The variable is an unsigned 32-bit number; the run's lease ends retrying long before."""


class CallbackSettings(TypedDict):
    """The fields of this group, see WorkerSettings."""

    batch_interval: timedelta
    batch_size: int
    callback_timeout: timedelta
    callback_retries: int


def read_callbacks(env: EnvironmentReader) -> CallbackSettings:
    """Reads the group; a batch size is clamped to what one callback may carry, a timeout to 1 ms."""
    size = env.number("EXECUTOR_MAX_BATCH_SIZE", 0, LONGEST_MILLISECONDS, 100)
    return CallbackSettings(
        batch_interval=env.milliseconds("EXECUTOR_BATCH_INTERVAL_MS", 0, LONGEST_MILLISECONDS, 1000),
        batch_size=min(max(size, 1), limits.CALLBACK_BATCH_EVENTS),
        callback_timeout=max(
            env.milliseconds("EXECUTOR_CALLBACK_TIMEOUT_MS", 0, LONGEST_MILLISECONDS, 5000), timedelta(milliseconds=1)
        ),
        callback_retries=env.number("EXECUTOR_CALLBACK_RETRIES", 0, MOST_RETRIES, 3),
    )


def render_callbacks(settings: CallbackSettings) -> dict[str, str]:
    """The variables that `read_callbacks` reads back."""
    return {
        "EXECUTOR_BATCH_INTERVAL_MS": in_milliseconds(settings["batch_interval"]),
        "EXECUTOR_MAX_BATCH_SIZE": str(settings["batch_size"]),
        "EXECUTOR_CALLBACK_TIMEOUT_MS": in_milliseconds(settings["callback_timeout"]),
        "EXECUTOR_CALLBACK_RETRIES": str(settings["callback_retries"]),
    }
