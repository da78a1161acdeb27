"""Which memory goes with which CPUs: Cloud Run's tables, from its pages on memory limits and CPU limits."""

from __future__ import annotations

import re
from typing import Final

MEMORY_MIN: Final = 128
"""MiB; of a first-generation instance, which the platform may choose."""
MEMORY_MAX: Final = 32 * 1024
"""MiB."""

_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,4})([MG])i", re.ASCII)
_MOST_MEMORY: Final = ((1, 4), (2, 8), (4, 16), (6, 24), (8, 32))
"""CPUs -> GiB that they may have at most."""
_LEAST_MEMORY: Final = {4: 2, 6: 4, 8: 4}
"""CPUs -> GiB that they must have at least."""


def is_memory(value: str) -> bool:
    """Whether a text is an amount of memory that an instance can have."""
    return _AMOUNT.fullmatch(value) is not None and MEMORY_MIN <= mebibytes(value) <= MEMORY_MAX


def mebibytes(memory: str) -> int:
    """MiB of an amount like `512Mi` or `2Gi`.

    Raises:
        ValueError: it is none.
    """
    match = _AMOUNT.fullmatch(memory)
    if match is None:
        raise ValueError(f"{memory!r} is no amount of memory")
    return int(match[1]) * (1024 if match[2] == "G" else 1)


def cpus_for(memory: str) -> int:
    """Fewest CPUs that may have so much memory."""
    return next(cpus for cpus, most in _MOST_MEMORY if mebibytes(memory) <= most * 1024)


def memory_for(cpus: int) -> str:
    """Least memory that so many CPUs must have."""
    least = _LEAST_MEMORY.get(cpus)
    return f"{least}Gi" if least else f"{MEMORY_MIN}Mi"
