"""The memory that the process of one run may have."""

from __future__ import annotations

from typing import Final

from runtime.contract.settings.parse import EnvironmentReader

RUN_MEMORY: Final = "EXECUTOR_RUN_MEMORY_MIB"
DEFAULT_RUN_MEMORY: Final = 1024
"""MiB, where the deployment says nothing; `infra` says what the instance's memory leaves for each run."""
MOST_RUN_MEMORY: Final = 32 * 1024
"""MiB; the largest instance has no more."""


def read_run_memory(env: EnvironmentReader) -> int:
    """MiB of one run's process; 0: no limit."""
    return env.number(RUN_MEMORY, 0, MOST_RUN_MEMORY, DEFAULT_RUN_MEMORY)


def render_run_memory(mebibytes: int) -> str:
    """The value that `read_run_memory` reads back."""
    return str(mebibytes)
