"""Any sequence of callbacks, ticks, cancellations, lost answers and crashes, one after the other or at once.

What must hold after every step: an ended run never moves, events have no hole and no duplicate, attempt and sequence
never go back, a lease has one holder; and at the end of time every accepted run has ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.contract.states import TERMINAL, RunState
from runtime.ports.documents import StoreUnavailable
from tests.support.api_bench import ApiBench
from tests.support.faulty_documents import Fault

HOUR = timedelta(hours=1)
HOLDER = "holder"
"""Stands for whichever worker holds the lease: most calls of a real life are its."""
WORKERS = st.sampled_from([HOLDER, HOLDER, "a", "b"])
LEASE = st.tuples(st.just("lease"), WORKERS, st.sampled_from([None, None, 0, 20_000]))
EVENTS = st.tuples(st.just("events"), WORKERS, st.integers(-2, 1), st.integers(1, 3))
OTHER = st.sampled_from([("tick",), ("submit again",), ("tick",), ("lease", "b", None), ("end", "a", "completed")])
ENDING = st.sampled_from(
    [("cancel",), ("dead letter", "b")]
    + [("end", HOLDER, status) for status in ("completed", "failed", "timeout", "cancelled")]
)
STEP = st.one_of(*[LEASE, EVENTS] * 5, *[EVENTS] * 4, OTHER, OTHER, ENDING)
"""Mostly what goes on while a run lives: an ending makes the rest of a sequence dull."""
TOGETHER = st.lists(STEP, min_size=1, max_size=3)
PAUSE = st.sampled_from([0, 1, 30, 149, 150, 151, 1800])
FAULTS = st.dictionaries(
    st.integers(0, 12), st.sampled_from([Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST]), max_size=3
)
PUBLISHER = st.sampled_from(["ok", "ok", "refused", "unavailable", "lost answer", "hangs"])


@dataclass
class Life:
    """One run, and what was seen of it."""

    bench: ApiBench
    seen: RunRecord
    holders: dict[str, datetime] = field(default_factory=dict)
    attempts: dict[int, str] = field(default_factory=dict)

    async def step(self, step: tuple[Any, ...]) -> None:
        parts: list[Any] = [self.seen.lease_token or "a" if part == HOLDER else part for part in step]
        bench, (kind, *rest) = self.bench, parts
        try:
            match kind:
                case "lease":
                    await self.lease(*rest)
                case "events":
                    token, offset, count = rest
                    first = max(0, self.seen.next_sequence + offset)
                    await bench.events(token, *range(first, first + count), attempt=self.seen.attempt)
                case "end":
                    await bench.progress(rest[0], rest[1], result=rest[1] if rest[1] == "completed" else None)
                case "dead letter":
                    await bench.progress(rest[0], "dead_lettered")
                case "cancel":
                    await bench.cancel()
                case "tick":
                    await bench.sweeper.tick()
                case "submit again":
                    assert (await bench.accept()).submission_id == self.seen.submission_id
        except StoreUnavailable:
            pass  # the store was away for the whole call; the caller repeats it, or not
        except Problem as problem:
            if problem.code not in {"sequence_gap", "lease_not_current", "store_unavailable"}:
                raise

    async def lease(self, token: str, duration: int | None) -> None:
        more: dict[str, Any] = {} if duration is None else {"lease_duration_ms": duration}
        asked = self.bench.clock.now()
        answer = await self.bench.lease(token, **more)
        if answer["lease_acquired"]:
            # A holder counts from before it asked: then the lease is its own for at least as long.
            now = self.bench.clock.now()
            others = {other: until for other, until in self.holders.items() if other != token and until > now}
            assert not others, f"{token} was given a lease that {others} hold"
            assert self.attempts.setdefault(answer["attempt"], token) == token, "two tokens share an attempt"
            self.holders[token] = asked + timedelta(milliseconds=answer["lease_ms_left"])
        else:
            self.holders.pop(token, None)

    async def check(self) -> None:
        before, now = self.seen, await self.bench.record()
        if before.state in TERMINAL:
            assert now == before, "an ended run moved"
        assert now.attempt >= before.attempt
        assert now.next_sequence >= before.next_sequence
        assert now.generation == before.generation
        events = [event["sequence"] for event in await self.bench.log.read(now, -1, batches=1000)]
        assert events == list(range(now.next_sequence)), "a hole or a duplicate"
        assert (now.state is RunState.SUCCEEDED) is now.has_result
        self.seen = now


async def begun(publisher: str) -> Life:
    bench = ApiBench(max_queue_age=HOUR)
    bench.publisher.says = publisher
    record = await bench.within(bench.accept(), step=0.5)
    return Life(bench, record)


def order(bench: ApiBench, faults: dict[int, Fault]) -> None:
    first = len(bench.documents.calls)
    bench.documents.choose = lambda number, _kind, _writes: faults.get(number - first)


@settings(max_examples=40, deadline=None)
@given(PUBLISHER, st.lists(st.tuples(TOGETHER, FAULTS, PAUSE, PUBLISHER), min_size=8, max_size=14))
async def test_a_run_keeps_its_promises_through_any_sequence_of_calls(
    publisher: str, steps: list[tuple[list[tuple[Any, ...]], dict[int, Fault], int, str]]
) -> None:
    life = await begun(publisher)
    bench = life.bench
    for together, faults, pause, says in steps:
        bench.publisher.says = says
        order(bench, faults)
        await bench.within(gathered(life, together), step=0.5)
        order(bench, {})
        await life.check()
        await bench.clock.advance(pause)
    bench.publisher.says = "refused"
    await bench.clock.advance(HOUR.total_seconds() + 151)
    await bench.sweeper.tick()
    await life.check()
    assert life.seen.state in TERMINAL, "an accepted run was forgotten"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["refused", "unavailable", "hangs", "ok", "lost answer"]), max_size=6))
async def test_a_run_that_was_accepted_is_published_once_the_broker_takes_it(says: list[str]) -> None:
    life = await begun(says[0] if says else "refused")
    bench = life.bench
    for word in [*says[1:], "ok"]:
        bench.publisher.says = word
        await bench.clock.advance(60)
        await bench.within(bench.sweeper.tick(), step=1)
    await life.check()
    assert life.seen.state is RunState.DISPATCHING
    assert len(bench.publisher.messages) >= 1
    if "lost answer" not in says:
        assert len(bench.publisher.messages) == 1


async def gathered(life: Life, together: list[tuple[Any, ...]]) -> None:
    async with asyncio.TaskGroup() as group:
        for step in together:
            group.create_task(life.step(step))
