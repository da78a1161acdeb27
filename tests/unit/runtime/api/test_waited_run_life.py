"""A run whose caller waits, through any sequence of what its executor, its API, its owner and the sweeper do.

What must hold after every step: an ended run never moves, it is never queued, only the API's own lease works it; and at
the end of time it has ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.api.executor_errors import ExecutorBroken, ExecutorUnavailable
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem
from runtime.api.run_end import RunEnd
from runtime.api.run_record import RunRecord
from runtime.api.transitions import Holder, Note, Ruling, give_up, reserve_publication, take_lease
from runtime.contract.states import TERMINAL, FailureClass, RunMode, RunState
from runtime.ports.documents import StoreUnavailable
from tests.support.api_bench import ApiBench, request
from tests.support.faulty_documents import Fault

TIMEOUT = timedelta(seconds=100)
LEASE = timedelta(seconds=150)
GOES_ON = st.sampled_from([("lease", "api"), ("events", "api"), ("tick",), ("cancel",), ("again",)])
ENDS = st.one_of(
    st.tuples(st.just("end"), st.just("api"), st.sampled_from(["completed", "failed", "timeout", "cancelled"])),
    st.sampled_from([("told", "succeeded"), ("told", "failed"), ("told", "nonsense"), ("broken",), ("unavailable",)]),
)
TOGETHER = st.lists(st.one_of(GOES_ON, GOES_ON, GOES_ON, ENDS), min_size=1, max_size=3)
PAUSES = st.sampled_from([0, 1, 50, 149, 150])
FAULTS = st.dictionaries(
    st.integers(0, 8), st.sampled_from([Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST]), max_size=2
)


@dataclass
class Life:
    bench: ApiBench
    run_end: RunEnd
    seen: RunRecord

    async def step(self, step: tuple[Any, ...]) -> None:
        bench, (kind, *rest) = self.bench, step
        try:
            match kind:
                case "lease":
                    await bench.lease(rest[0])
                case "events":
                    await bench.events(rest[0], (await bench.record()).next_sequence)
                case "end":
                    await bench.progress(rest[0], rest[1])
                case "told":
                    told = {"state": rest[0], "error": "told" if rest[0] == "failed" else None}
                    await self.run_end.record("r1", self.run_end.as_told("r1.1", "api", told))
                case "broken":
                    await self._failed(ExecutorBroken("cut"))
                case "unavailable":
                    await self._failed(ExecutorUnavailable("nobody"))
                case "cancel":
                    await bench.cancel()
                case "tick":
                    await bench.sweeper.tick()
                case "again":
                    assert (await begin(bench)).submission_id == self.seen.submission_id
        except StoreUnavailable:
            pass  # the store was away for the whole call; the caller repeats it, or not
        except Problem as problem:
            if problem.code not in {"sequence_gap", "lease_not_current", "store_unavailable"}:
                raise

    async def _failed(self, error: ExecutorBroken | ExecutorUnavailable) -> None:
        await self.run_end.record("r1", self.run_end.as_failed("r1.1", "api", error))

    async def check(self) -> None:
        now = await self.bench.record()
        if self.seen.state in TERMINAL:
            assert now == self.seen, "an ended run moved"
        assert (now.attempt, now.generation, now.lease_token) == (1, 1, "api")
        assert sum(entry.state in TERMINAL for entry in now.history) <= 1
        assert self.bench.publisher.tries == 0, "a run whose caller waits is never queued"
        self.seen = now


async def begin(bench: ApiBench) -> RunRecord:
    wanted = replace(request(), mode=RunMode.SYNC, timeout=TIMEOUT)
    return (await bench.submissions.begin(wanted, "shop", "api", LEASE)).record


async def gathered(life: Life, together: list[tuple[Any, ...]]) -> None:
    async with asyncio.TaskGroup() as group:
        for step in together:
            group.create_task(life.step(step))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TOGETHER, FAULTS, PAUSES), min_size=1, max_size=8))
async def test_a_run_ends_once_through_any_sequence_of_calls(
    steps: list[tuple[list[tuple[Any, ...]], dict[int, Fault], int]],
) -> None:
    bench = ApiBench()
    run_end = RunEnd(bench.callbacks, bench.runs, Payloads(bench.documents), bench.clock)
    life = Life(bench, run_end, await begin(bench))
    for together, faults, pause in steps:
        first, ordered = len(bench.documents.calls), faults

        def choose(number: int, _kind: str, _writes: object, start: int = first, order: Any = ordered) -> Fault | None:
            fault: Fault | None = order.get(number - start)
            return fault

        bench.documents.choose = choose
        await bench.within(gathered(life, together), step=0.5)
        bench.documents.choose = lambda _number, _kind, _writes: None
        await life.check()
        await bench.clock.advance(pause)
    await bench.clock.advance((TIMEOUT + LEASE).total_seconds() + 61)
    await bench.sweeper.tick()
    await life.check()
    assert life.seen.state in TERMINAL, "an accepted run was forgotten"


async def waiting(mode: RunMode, lease: timedelta) -> tuple[ApiBench, RunRecord]:
    bench = ApiBench()
    wanted = replace(request(), mode=mode, timeout=TIMEOUT)
    return bench, (await bench.submissions.begin(wanted, "shop", "api", lease)).record


@pytest.mark.parametrize("mode", [RunMode.SYNC, RunMode.STREAM])
@pytest.mark.parametrize(("lease", "due"), [(150, 160), (200, 200)], ids=["by its timeout", "by its lease"])
async def test_it_expires_a_minute_after_its_timeout_and_not_under_a_live_lease(
    mode: RunMode, lease: int, due: int
) -> None:
    bench, record = await waiting(mode, timedelta(seconds=lease))
    moment = bench.clock.now() + timedelta(seconds=due)
    assert record.sweep_at == moment
    assert reserve_publication(record, moment) is None
    assert give_up(record, moment - timedelta(seconds=1)) is None
    expired = give_up(record, moment)
    assert expired is not None
    assert (expired.state, expired.status_code, expired.failure_class) == (
        RunState.EXPIRED, 504, FailureClass.FRAMEWORK_TIMEOUT,
    )  # fmt: skip


async def test_nobody_else_takes_it_while_its_lease_is_live() -> None:
    bench, record = await waiting(RunMode.STREAM, LEASE)
    ruling, _ = take_lease(record, Holder(job_id="r1.1", lease_token="b"), LEASE, Note(), bench.clock.now())
    assert ruling is Ruling.BUSY
