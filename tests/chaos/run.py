"""A storm over the whole local stack, and what must hold after it.

    make chaos      or      python -m tests.chaos.run [--messages 2000] [--seconds 60] [--seed 1]

Real processes, a real API and a real database; workers are killed, their clocks are wrong, their store fails or is
slow, keys cannot be had, and the broker repeats and reorders. Ends with 1 and the run ids where a rule is broken. The
seed decides what goes wrong and when; which call that meets depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop

from runtime.contract.outcomes import OUTCOMES
from tests.chaos.load import Load
from tests.chaos.plan import Disturbance, plan
from tests.chaos.storm import Storm
from tests.chaos.verdict import Verdict, judge
from tests.support.local import QUICK, WORKER, RunningStack, local_stack

STORM_SECONDS: Final = 45.0
"""How long things go wrong where nothing bounds the run."""
TAIL_SECONDS: Final = 38.0
"""What the last killed worker's messages need: until their claims are stale, and a redelivery."""
LAST_SECONDS: Final = 8.0
"""Before the bound, the last message is sent."""
LONGEST_SECONDS: Final = 600.0
"""After the last message is sent, every one is settled by then, however slow the machine."""
TAKEOVERS: Final = "takeovers of a dead owner's claim"
TOKEN_AGE: Final = timedelta(minutes=10)
"""Of the push tokens, so that also a clock that is slow by five minutes believes them."""
CHANGES: Final[dict[str, Any]] = {
    "holdfast:worker": {
        **QUICK["holdfast:worker"],
        "max_attempts": 20,
        "concurrency": 24,
        "memory": "2Gi",
        "max_instances": 4,
    },
    "holdfast:engines": {"effect": "tests.chaos.effect:run"},
}


async def chaos(messages: int, seconds: float | None, seed: int) -> int:
    """Runs it all, prints the summary; 0 where every rule holds."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with local_stack(Path(folder), CHANGES) as running:
            _age_push_tokens(running)
            ready = time.monotonic()
            left = None if seconds is None else began + seconds - ready
            length = STORM_SECONDS if left is None else max(5.0, left - TAIL_SECONDS)
            load = Load(running, f"chaos-{seed}", Path(folder) / "marks")
            storm = Storm(running, plan(seed, length))
            running.stack.cloud_run.kill(WORKER)  # the one that has started was told nothing
            until = math.inf if left is None else ready + max(10.0, left - LAST_SECONDS)
            async with asyncio.TaskGroup() as group:
                group.create_task(storm.blow())
                group.create_task(load.send(messages, until))
            quiet = await _come_to_rest(running)
            takeovers = len(running.logs.events("claim_taken_over"))
            verdict = await judge(load, {Disturbance.KILL: storm.counts[Disturbance.KILL], TAKEOVERS: takeovers})
            if not quiet:
                verdict.broken["every message is settled in time"].append(str(running.counts()))
            _report(messages, load, storm, verdict, time.monotonic() - ready, running)
            if verdict.broken:
                sys.stdout.write(f"{running.logs.text()}\n")
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines()) or "every rule holds\n")
    return 1 if verdict.broken else 0


def _age_push_tokens(running: RunningStack) -> None:
    for feed in running.stack.pubsub.broker:
        push = feed.subscription.push
        if push is not None and push.account is not None:
            running.stack.identity.id_token(push.account, push.audience, age=TOKEN_AGE)


async def _come_to_rest(running: RunningStack) -> bool:
    try:
        await running.stack.pubsub.wait_idle(timeout=LONGEST_SECONDS)
    except TimeoutError:
        return False
    return True


def _report(messages: int, load: Load, storm: Storm, verdict: Verdict, seconds: float, running: RunningStack) -> None:
    answers = running.logs.events("delivery_answered")
    excused = sum(OUTCOMES[line["outcome"]].excused for line in answers)
    rows: list[tuple[str, object]] = [
        ("messages", f"{load.sent} of {messages}: {len(load.runs)} runs, {load.unreadable} unreadable"),
        *sorted((f"runs {state}", count) for state, count in verdict.states.items()),
        *sorted(storm.counts.items()),
        *sorted(storm.met().items()),
        ("submissions repeated", load.repeats),
        ("deliveries answered", len(answers)),
        (TAKEOVERS, len(running.logs.events("claim_taken_over"))),
        ("deliveries excused", excused),
        ("attempts, effects", f"{verdict.attempts}, {verdict.effects}"),
        ("dead letters", verdict.letters),
        ("seconds, messages a second", f"{seconds:.0f}, {load.sent / seconds:.1f}"),
    ]
    sys.stdout.writelines(f"{name:45} {value}\n" for name, value in rows)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=None, help="bound of the whole run; none: as long as it takes")
    parser.add_argument("--seed", type=int, default=None, help="of the plan; none: a new one, which is printed")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seed = random.SystemRandom().randrange(10_000) if given.seed is None else given.seed
    sys.stdout.write(f"seed {seed}\n")
    return uvloop.run(chaos(given.messages, given.seconds, seed))


if __name__ == "__main__":
    sys.exit(main())
