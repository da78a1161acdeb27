"""CPU and memory of Cloud Run containers: what the platform has, and which goes with which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.provider.faults import Failure
from sandbox.provider.limits import at

_CPU: Final = re.compile(r"(?:[1-9]|[1-9][0-9]{1,3}m|0?\.[0-9]{1,3})", re.ASCII)
_WHOLE: Final = frozenset({1000, 2000, 4000, 6000, 8000})
_SMALLEST_CPU: Final = 80
"""Thousandths of a CPU."""
_MEMORY: Final = re.compile(r"([1-9][0-9]{0,11})(|k|M|G|Ki|Mi|Gi)", re.ASCII)
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_MEBI, _GIBI = 2**20, 2**30
_LEAST_MEMORY: Final = {"EXECUTION_ENVIRONMENT_GEN2": 512 * _MEBI}
_LEAST_OF_ALL: Final = 128 * _MEBI
"""Bytes: of a second-generation instance, and of one that is of the first or may be."""
_MOST_OF_ALL: Final = 32 * _GIBI
_PAIRS: Final = ((8000, 4, 32), (6000, 4, 24), (4000, 2, 16), (2000, 0, 8), (0, 0, 4))
"""Thousandths of a CPU from which on -> GiB at least, GiB at most."""


def size_failures(container: Mapping[str, Any], generation: str | None) -> Iterator[Failure]:
    """What the platform refuses of a container's limits; of what is not known yet nothing."""
    cpu, memory = at(container, "resources.limits.cpu"), at(container, "resources.limits.memory")
    thousandths = None if cpu is None else _thousandths(str(cpu))
    size = None if memory is None else _bytes(str(memory))
    if cpu is not None and thousandths is None:
        yield Failure("resources.limits.cpu", f"{cpu!r} is refused; it must be 1, 2, 4, 6, 8 or 0.08 to 1")
    least = _LEAST_MEMORY.get(generation or "", _LEAST_OF_ALL)
    if memory is not None and (size is None or not least <= size <= _MOST_OF_ALL):
        rule = f"it must be {least // _MEBI}Mi to {_MOST_OF_ALL // _GIBI}Gi"
        yield Failure("resources.limits.memory", f"{memory!r} is refused; {rule}")
    elif thousandths is not None and size is not None:
        low, high = next((low, high) for start, low, high in _PAIRS if thousandths >= start)
        if not low * _GIBI <= size <= high * _GIBI:
            rule = f"{f'{low}Gi to' if low else 'at most'} {high}Gi"
            yield Failure("resources.limits.memory", f"{memory!r} is refused; {cpu} CPU takes {rule}")


def _thousandths(cpu: str) -> int | None:
    if not _CPU.fullmatch(cpu):
        return None
    found = int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)
    return found if found in _WHOLE or _SMALLEST_CPU <= found < min(_WHOLE) else None


def _bytes(memory: str) -> int | None:
    match = _MEMORY.fullmatch(memory)
    return int(match[1]) * _UNITS[match[2]] if match else None
