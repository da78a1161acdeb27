"""Leases, endings, dead letters, their copies and their replays, in any order, under a store that fails.

What must hold after every step: only a replay reopens a run, by one generation; each letter is replayed at most once.
"""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.api.problem import Problem
from runtime.api.report import read_progress
from runtime.contract.settings.words import Workload
from runtime.ports.documents import StoreUnavailable
from tests.support.api_bench import ApiBench
from tests.support.dead_pushes import dead_push
from tests.support.faulty_documents import Fault

STEP = st.sampled_from(["lease", "end", "fail", "cancel", "letter", "old letter", "replay", "replay", "tick", "hour"])
FAULTS = st.dictionaries(
    st.integers(0, 5), st.sampled_from([Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST]), max_size=2
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(STEP, FAULTS), min_size=4, max_size=12))
async def test_in_any_order_only_a_replay_reopens_a_run_and_each_letter_is_replayed_once(
    steps: list[tuple[str, dict[int, Fault]]],
) -> None:
    bench = ApiBench()
    after = await bench.accept()
    for step, faults in steps:
        before = after
        order(bench, faults)
        await take(bench, step)
        order(bench, {})
        after = await bench.record()
        if before.ended and step != "replay":
            assert after == before, "only a replay reopens a run"
        assert after.generation - before.generation in ({0, 1} if step == "replay" else {0})
    found, _ = await bench.letters.page(None, None, None, 100)
    begun = [one.letter.replayed_generation for one in found if one.letter.replayed_generation]
    assert sorted(begun) == list(range(2, after.generation + 1)), "each generation from a letter of its own"


def order(bench: ApiBench, faults: dict[int, Fault]) -> None:
    first = len(bench.documents.calls)
    bench.documents.choose = lambda number, _kind, _writes: faults.get(number - first)


async def take(bench: ApiBench, step: str) -> None:
    try:
        match step:
            case "lease" | "end" | "fail":
                status = {"lease": "running", "end": "completed", "fail": "failed"}[step]
                job_id = bench.publisher.messages[-1][1]["job_id"]
                body = json.dumps({"job_id": job_id, "lease_token": "a", "status": status}).encode()
                await bench.within(bench.callbacks.progress("r1", read_progress(body)))
            case "cancel":
                await bench.within(bench.cancel())
            case "letter" | "old letter":
                message = bench.publisher.messages[0 if step == "old letter" else -1][1]
                await bench.within(bench.dead_letters.receive(dead_push(message), Workload.EXECUTION))
            case "replay":
                found, _ = await bench.letters.page(None, None, None, 100)
                for stored in found:
                    await bench.within(bench.replays.replay(stored.id, "operator"))
            case "tick":
                await bench.within(bench.sweeper.tick())
            case "hour":
                await bench.clock.advance(3600)
    except (Problem, StoreUnavailable):
        pass  # refused, or away: the caller's matter
