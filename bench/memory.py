"""Resident memory of a server over many requests: what it holds after the first fifth, and what it holds at the end.

    make bench        or        python bench/memory.py [worker|executor] [--requests N]

The worker: 100,000 authenticated deliveries, each claimed, worked and settled, over a store and a job that answer at
once, so that what grows is the worker's. The executor: 50,000 empty flows. Whole processes, from /proc; a fifth warms
up, then memory is read after every twentieth part. Goal: under 5 % growth.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import load, push
from bench.identities import Identities
from bench.servers import Server, python, running

GOAL: Final = 5.0
"""Per cent."""
PARTS: Final = 20
WARM: Final = 4
"""Parts that warm up."""
SLICE_SECONDS: Final = 10.0
JOBS: Final = 400
"""In turn: far more than are in flight, since the executor refuses one that it already works on."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One server and what it is sent."""

    name: str
    requests: int
    status: int


SUBJECTS: Final = (Subject("worker", 100_000, 204), Subject("executor", 50_000, 200))


def resident(server: Server) -> float:
    """MiB of the process."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(found) / 1024


def measured(server: Server, sent: Sequence[str], status: int, requests: int) -> tuple[list[float], int]:
    """MiB after each part, and how many requests were answered in all."""
    found: list[float] = []
    done = 0
    while len(found) < PARTS:
        seen = load.fired("requests", server.port, sent, status=status, seconds=SLICE_SECONDS)
        done += seen["done"]
        while len(found) < PARTS and done >= requests * (len(found) + 1) / PARTS:
            found.append(resident(server))
    return found, done


def report(subject: Subject, requests: int) -> None:
    """Measures one server and prints its line."""
    with tempfile.TemporaryDirectory() as folder:
        identities = Identities(Path(folder))
        if subject.name == "worker":
            command, sent = python("-m", "bench.ours.worker", "free", "PORT"), push.requests(identities, push.CACHED)
        else:
            command = python("-m", "bench.ours.executor", "PORT")
            jobs = (identities.job(f"m{number}", None, engine="flow", mode="sync") for number in range(JOBS))
            sent = [load.request("/execute", job) for job in jobs]
        with running(subject.name, command, identities.file, path="/health/ready") as server:
            found, done = measured(server, sent, subject.status, requests)
    began, ended = found[WARM - 1], statistics.median(found[-3:])
    growth = 100 * (ended - began) / began
    print(
        f"{subject.name:9} {done:>8} requests: {began:.1f} MiB after {100 * WARM // PARTS} %, {ended:.1f} at the end,"
        f" {growth:+.1f} % (goal: under {GOAL:g} %, {'yes' if growth < GOAL else 'NO'});"
        f" all: {' '.join(f'{one:.0f}' for one in found)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", nargs="?", choices=[subject.name for subject in SUBJECTS])
    parser.add_argument("--requests", type=int, default=None)
    given = parser.parse_args()
    for subject in SUBJECTS:
        if given.subject in {None, subject.name}:
            report(subject, given.requests or subject.requests)
