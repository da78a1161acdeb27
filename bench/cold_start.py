"""A cold start: from the spawn of a process to its first 200 of `/health/ready`, on one CPU, with all caches warm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.servers import Server, first_answer, free_port, python, spawn, stop
from bench.table import Spread, Table, at_most

READY: Final = "/health/ready"


def role(module: str, *arguments: str) -> list[str]:
    """A command that runs a module with what an image has: there is no `rich`, which structlog loads where it is."""
    lines = ("import runpy, sys", "sys.modules['rich'] = None", f"sys.argv = {['', *arguments]!r}",
             f"runpy.run_module({module!r}, run_name='__main__')")  # fmt: skip
    return python("-c", "; ".join(lines))


@dataclass(frozen=True, slots=True)
class Start:
    """A process to start.

    Attributes:
        command: PORT in it is its port.
        env: beside the run's own.
    """

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def compare(table: Table, peer: str, starts: tuple[Start, Start], setup: Path, rounds: int, limit: float) -> None:
    """Ours and the peer's in turn; the first round, which warms the caches, is not recorded.

    The goal is one of time on a quiet machine; on a busy one the CPU time says more.
    """
    found: tuple[list[tuple[float, float]], ...] = ([], [])
    for turn in range(rounds + 1):
        for taken, start in zip(found, starts, strict=True):
            once = _once(start, setup)
            if turn:
                taken.append(once)
    (ours, our_cpu), (theirs, their_cpu) = (tuple(map(Spread, zip(*taken, strict=True))) for taken in found)
    table.add(at_most("cold start, ms", peer, ours, theirs, limit))
    table.add(at_most("cold start, CPU ms", peer, our_cpu, their_cpu))


def _once(start: Start, setup: Path) -> tuple[float, float]:
    port = free_port()
    began = time.perf_counter()
    process = spawn(start.command, port, setup, {"PORT": str(port), **start.env})
    try:
        while first_answer(process, port, READY) != 200:
            time.sleep(0.002)
        took = time.perf_counter() - began
        return 1000 * took, 1000 * Server("cold", port, process.pid).cpu_seconds()
    finally:
        stop(process)
