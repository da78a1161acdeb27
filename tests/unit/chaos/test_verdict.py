"""The storm's judge finds what is broken, and its plan is the seed's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from runtime.contract import names
from runtime.contract.states import RunState
from sandbox.cloud_run.faults import Action
from tests.chaos.load import Load
from tests.chaos.plan import Disturbance, plan
from tests.chaos.verdict import Found, judged
from tests.support.local import RunningStack

ORDERED = [f"fails-{number}" for number in range(100)]
"""Runs that are to fail."""

Change = Callable[[Found], object]


def at_rest() -> Found:
    """Runs that were worked, of which one was given up, and one message that is no job."""
    ends = {"r1": "succeeded", "r2": "dead_lettered", **dict.fromkeys(ORDERED, "failed")}
    return {
        names.RUNS: {
            run_id: {
                "state": state,
                "generation": 1,
                "attempt": 2,
                "history": [{"generation": 1, "state": each} for each in ("queued", "running", state)],
            }
            for run_id, state in ends.items()
        },
        names.RUN_EVENTS: {
            "r1.0": {"run_id": "r1", "events": msgspec.json.encode([{"event_type": "effect"}, {"event_type": "log"}])}
        },
        names.CLAIMS: {
            "c1": {"message_id": "1", "state": "completed", "outcome_code": ""},
            "c2": {"message_id": "2", "state": "dead_lettered", "outcome_code": "x"},
        },
        names.DEAD_LETTERS: {
            "c2": {"run_id": "r2", "failure_class": "retry_exhausted"},
            "c3": {"run_id": None, "failure_class": "malformed_message"},
        },
    }


def rules(found: Found, marks: Path, **troubles: int) -> set[str]:
    runs = {"r1": RunState.SUCCEEDED, "r2": RunState.SUCCEEDED, **dict.fromkeys(ORDERED, RunState.FAILED)}
    load = Load(cast("RunningStack", None), "chaos", marks, runs=runs, unreadable=1)
    return set(judged(load, found, {"kills": 1, **troubles}).broken)


def test_a_stack_that_lost_nothing_breaks_no_rule(tmp_path: Path) -> None:
    assert rules(at_rest(), tmp_path / "marks") == set()


def _again(found: Found) -> None:
    found[names.RUNS]["r1"]["history"].append({"generation": 1, "state": "succeeded"})


def _effects(found: Found) -> None:
    found[names.RUN_EVENTS]["r1.1"] = {"run_id": "r1", "events": b'[{"event_type":"effect"},{"event_type":"effect"}]'}


def _set(collection: str, id_: str, **fields: Any) -> Change:
    return lambda found: found[collection][id_].update(fields)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda found: found[names.RUNS].pop("r1"), "every accepted run is on record"),
        (_set(names.RUNS, "r1", state="running"), "every accepted run has ended"),
        (_set(names.RUNS, "r1", state="failed"), "each run has ended as its work does"),
        (_set(names.RUNS, "fails-7", state="succeeded"), "each run has ended as its work does"),
        (_set(names.RUNS, "r1", state="dead_lettered"), "at most one run of 100 is given up"),
        (_again, "each generation ends once"),
        (_set(names.RUNS, "r1", history=[]), "each generation ends once"),
        (lambda found: found[names.RUN_EVENTS].clear(), "what has succeeded has had its effect"),
        (_effects, "no attempt has its effect twice"),
        (_set(names.DEAD_LETTERS, "c2", run_id="r3"), "every dead-lettered run has its letter"),
        (lambda found: found[names.DEAD_LETTERS].pop("c2"), "every dead-lettered claim has its letter"),
        (lambda found: found[names.DEAD_LETTERS].pop("c3"), "every unreadable message has its letter"),
        (_set(names.CLAIMS, "c1", state="in_progress"), "nothing is left claimed, or given back and not worked"),
        (_set(names.CLAIMS, "c1", state="released"), "nothing is left claimed, or given back and not worked"),
    ],
)
def test_what_is_broken_is_found(change: Change, rule: str, tmp_path: Path) -> None:
    found = at_rest()
    change(found)
    assert rule in rules(found, tmp_path / "marks")


@pytest.mark.parametrize("state", ["dead_lettered", "rejected", "expired"])
def test_a_stack_on_which_nothing_works_does_not_pass(state: str, tmp_path: Path) -> None:
    found = at_rest()
    for run_id, run in found[names.RUNS].items():
        run.update(state=state, attempt=0, history=[{"generation": 1, "state": state}])
        found[names.DEAD_LETTERS][run_id] = {"run_id": run_id, "failure_class": "retry_exhausted"}
    found[names.RUN_EVENTS].clear()
    assert rules(found, tmp_path / "marks")


def test_a_storm_without_messages_or_without_trouble_proves_nothing(tmp_path: Path) -> None:
    nothing = {name: dict[str, Any]() for name in at_rest()}
    load = Load(cast("RunningStack", None), "chaos", tmp_path / "marks")
    assert set(judged(load, nothing, {}).broken) == {"at least 100 messages were sent"}
    assert rules(at_rest(), tmp_path / "marks", kills=0) == {"there was trouble: kills"}


def test_a_mark_is_an_effect(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.write_text("r1\nr1\n")
    assert rules(at_rest(), marks) == {"no attempt has its effect twice"}


def test_a_seed_gives_one_plan_with_every_kind_of_trouble_in_its_time() -> None:
    one = plan(7, 20)
    assert one == plan(7, 20)
    assert one != plan(8, 20)
    assert {event.what for event in one.events} == set(Disturbance)
    assert all(0 <= event.at <= 20 for event in one.events)
    told = {fault.action for faults in one.instances for fault in faults}
    assert told == set(Action)
