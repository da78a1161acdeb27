"""How much memory the process of one run may have: what its instance has, shared by all that it runs at once."""

from __future__ import annotations

from typing import Final

from infra.instance_size import mebibytes

SERVICE_MEMORY: Final = 256
"""MiB for the service itself: its process, the fork server, and the streams and bodies of all its requests."""
RUN_MEMORY_MIN: Final = 64
"""MiB; an interpreter that has loaded nothing of the user's takes a fifth of it."""


def run_memory(memory: str, concurrency: int) -> int:
    """MiB for each run, so that all of them together with the service fit into the instance; 0 or less: none fits.

    Args:
        memory: of the instance, like `1Gi`.
        concurrency: runs at once.
    """
    return (mebibytes(memory) - SERVICE_MEMORY) // concurrency


def most_runs(memory: str) -> int:
    """Most runs at once that an instance has memory for; 1 where it has too little for any."""
    return max(1, (mebibytes(memory) - SERVICE_MEMORY) // RUN_MEMORY_MIN)
