"""Seconds of a deployment: the program by itself, `holdfast preview`, and each operation of the real engine.

    make bench        or        python bench/deployment.py [--rounds N]

The stack `dev`, offline, against the stand-in provider; the operations with the policy pack. The bounds are seconds, so
they mean something on a machine that does nothing else; no ratio, and no peer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.table import Spread
from runtime.identity.keys import environment_value, generate_job_keys
from sandbox.engine.cli.binary import PulumiMissing, find_pulumi
from sandbox.engine.embedded import realise
from sandbox.engine.pulumi_cli import PulumiEngine, policy_packs
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.stack_file import merged, read_stack_file

ROOT: Final = Path(__file__).resolve().parents[1]
STACK: Final = "dev"
PROGRAM: Final = "program, no engine"
PREVIEW: Final = f"holdfast preview {STACK}"
BOUNDS: Final = {PROGRAM: 3, PREVIEW: 15}
"""Seconds; of everything else OPERATION."""
OPERATION: Final = 60
SHORTER: Final = {"holdfast:worker": {"run_timeout_seconds": 500}}


def run_program() -> None:
    """The program on the embedded engine, once."""
    with tempfile.TemporaryDirectory() as folder:
        realise(_values(), _secrets(), stack=STACK, world_dir=Path(folder), with_policies=False)


def steps() -> Iterator[tuple[str, Callable[[], object]]]:
    """The program, its preview, and a stack's life on the real engine, in order."""
    yield PROGRAM, _process(__file__, "--program")
    try:
        find_pulumi()
    except PulumiMissing as error:
        print(f"the real engine is left out: {error}")
        return
    yield PREVIEW, _process("-c", "from cli.main import main; main()", "preview", STACK)
    with tempfile.TemporaryDirectory() as folder:
        home, secrets, packs = PulumiHome(Path(folder).resolve()), _secrets(), policy_packs(ROOT)
        first, second = (
            PulumiEngine(home=home, stack=STACK, config=config, secrets=secrets, policy_packs=packs)
            for config in (_values(), merged(_values(), SHORTER))
        )
        yield "preview", first.preview
        yield "up", first.up
        yield "up, nothing changed", first.up
        yield "up, one timeout changed", second.up
        yield "refresh", second.refresh
        yield "destroy", second.destroy


def _values() -> dict[str, str]:
    return read_stack_file(ROOT / f"Pulumi.{STACK}.yaml")


def _secrets() -> dict[str, str]:
    return {"holdfast:signing_key": environment_value(generate_job_keys().private_pem)}


def _process(*words: str) -> Callable[[], object]:
    """A process of its own, so that each time has the imports in it."""
    return lambda: subprocess.run([sys.executable, *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def measured(rounds: int) -> dict[str, list[float]]:
    """Seconds of each, round by round."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, step in steps():
            began = time.perf_counter()
            step()
            found.setdefault(name, []).append(time.perf_counter() - began)
    return found


def report(rounds: int) -> None:
    """Measures and prints a line for each."""
    print("\nDeployment: seconds (min/median/max)\n")
    for name, values in measured(rounds).items():
        spread, bound = Spread(values), BOUNDS.get(name, OPERATION)
        print(f"{name:24} {spread!s:16} bound: {bound:>2} s, {'yes' if spread.median < bound else 'NO'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", action="store_true", help="run the program once, and measure nothing")
    given = parser.parse_args()
    if given.program:
        run_program()
    else:
        report(given.rounds)
