"""A cold start: from the spawn of a process to its first 200 of `/health/ready`, on one CPU, with all caches warm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.servers import first_answer, free_port, spawn, stop
from bench.table import Spread

READY: Final = "/health/ready"


@dataclass(frozen=True, slots=True)
class Start:
    """A process to start.

    Attributes:
        command: PORT in it is its port.
        env: beside the run's own.
    """

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def milliseconds(starts: Mapping[str, Start], setup: Path, rounds: int) -> dict[str, Spread]:
    """Each in turn; the first round, which warms the caches, is not recorded."""
    found: dict[str, list[float]] = {name: [] for name in starts}
    for turn in range(rounds + 1):
        for name, start in starts.items():
            took = _once(start, setup)
            if turn:
                found[name].append(took)
    return {name: Spread(values) for name, values in found.items()}


def _once(start: Start, setup: Path) -> float:
    port = free_port()
    began = time.perf_counter()
    process = spawn(start.command, port, setup, {"PORT": str(port), **start.env})
    try:
        while first_answer(process, port, READY) != 200:
            time.sleep(0.002)
        return 1000 * (time.perf_counter() - began)
    finally:
        stop(process)
