"""What must hold once everything has come to rest, judged from the store itself."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.contract import names
from runtime.contract.states import TERMINAL, RunState
from tests.chaos.load import Load
from tests.support.store import stored

GIVEN_UP: Final = 100
"""Of so many runs, one may end as a dead letter: whoever was killed at every one of its attempts."""
LEAST_SENT: Final = 100
"""Fewer messages than the slowest machine sends prove nothing."""
SHOWN: Final = 20
"""Most ids of one broken rule that are named."""

Rows = dict[str, dict[str, Any]]
Found = Mapping[str, Rows]
"""Documents by collection and id."""


@dataclass
class Verdict:
    """What was found.

    Attributes:
        broken: rule -> whom it does not hold for.
        states: runs by state.
        attempts: leases that were taken.
        effects: how often the work had its effect.
        letters: dead letters.
    """

    broken: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    states: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    effects: int = 0
    letters: int = 0

    def lines(self) -> list[str]:
        """One for each broken rule."""
        return [
            f"BROKEN: {rule}: {len(found)}: {' '.join(sorted(found)[:SHOWN])}" for rule, found in self.broken.items()
        ]


async def judge(load: Load, troubles: Mapping[str, int]) -> Verdict:
    """Reads the store of a stack at rest, and checks every rule."""
    collections = (names.RUNS, names.RUN_EVENTS, names.CLAIMS, names.DEAD_LETTERS)
    return judged(load, {name: await stored(load.running, name) for name in collections}, troubles)


def judged(load: Load, found: Found, troubles: Mapping[str, int]) -> Verdict:
    """Checks every rule on what was found.

    Args:
        load: what was sent.
        found: the store.
        troubles: how often each thing happened without which the run proves nothing.
    """
    verdict = Verdict(letters=len(found[names.DEAD_LETTERS]))
    if load.sent < LEAST_SENT:
        verdict.broken[f"at least {LEAST_SENT} messages were sent"].append(str(load.sent))
    verdict.broken.update({f"there was trouble: {what}": ["none"] for what, count in troubles.items() if not count})
    _judge_runs(verdict, load, found[names.RUNS])
    _judge_effects(verdict, load, found)
    _judge_letters(verdict, load, found)
    for id_, claim in found[names.CLAIMS].items():
        if claim["state"] not in {"completed", "dead_lettered"}:
            verdict.broken["nothing is left claimed, or given back and not worked"].append(
                f"{claim['message_id']} ({id_[:8]}, {claim['state']}, {claim['outcome_code']})"
            )
    return verdict


def _judge_runs(verdict: Verdict, load: Load, runs: Rows) -> None:
    given_up = [run_id for run_id in load.runs if runs.get(run_id, {}).get("state") == RunState.DEAD_LETTERED]
    if len(given_up) > len(load.runs) // GIVEN_UP:
        verdict.broken[f"at most one run of {GIVEN_UP} is given up"] += given_up
    for run_id, end in load.runs.items():
        run = runs.get(run_id)
        if run is None:
            verdict.broken["every accepted run is on record"].append(run_id)
            continue
        verdict.states[run["state"]] += 1
        verdict.attempts += run["attempt"]
        if run["state"] not in TERMINAL:
            verdict.broken["every accepted run has ended"].append(f"{run_id} ({run['state']})")
        elif run["state"] not in {end, RunState.DEAD_LETTERED}:
            verdict.broken["each run has ended as its work does"].append(f"{run_id} ({run['state']}, not {end})")
        ends = Counter(entry["generation"] for entry in run["history"] if entry["state"] in TERMINAL)
        if ends != {run["generation"]: 1}:
            verdict.broken["each generation ends once"].append(run_id)


def _judge_effects(verdict: Verdict, load: Load, found: Found) -> None:
    effects: Counter[str] = Counter()
    for batch in found[names.RUN_EVENTS].values():
        for event in json.loads(batch["events"]):
            effects[batch["run_id"]] += event["event_type"] == "effect"
    if load.marks.exists():
        effects.update(load.marks.read_text().split())
    verdict.effects = effects.total()
    for run_id in load.runs:
        run = found[names.RUNS].get(run_id, {})
        if run.get("state") == RunState.SUCCEEDED and effects[run_id] < 1:
            verdict.broken["what has succeeded has had its effect"].append(run_id)
        if effects[run_id] > run.get("attempt", 0):
            verdict.broken["no attempt has its effect twice"].append(run_id)


def _judge_letters(verdict: Verdict, load: Load, found: Found) -> None:
    letters = found[names.DEAD_LETTERS]
    of_runs = {letter["run_id"] for letter in letters.values()}
    for run_id in load.runs:
        if found[names.RUNS].get(run_id, {}).get("state") == RunState.DEAD_LETTERED and run_id not in of_runs:
            verdict.broken["every dead-lettered run has its letter"].append(run_id)
    for id_, claim in found[names.CLAIMS].items():
        if claim["state"] == "dead_lettered" and id_ not in letters:
            verdict.broken["every dead-lettered claim has its letter"].append(claim["message_id"])
    unreadable = sum(letter["failure_class"] == "malformed_message" for letter in letters.values())
    if unreadable < load.unreadable:
        verdict.broken["every unreadable message has its letter"].append(f"{unreadable} of {load.unreadable}")
