"""Whatever owners, store, clocks and broker do: one owner works at a time, and every message comes to its end.

Random interleavings of two to five processes over one store. A step is an order; what it causes happens on a clock
that the steps move. Left out: a store that loses what it has confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from structlog.testing import capture_logs

from tests.support.claim_model import ClaimModel, Owner
from tests.support.owners import Trouble

MOST_DELIVERIES = 12
"""In troubled times; the broker's limit leaves eight for what follows."""
ENDS = ("completed", "completed", "execution_failed", "run_lease_busy", "invalid_execution_request")
NUMBERS = st.integers(0, 4)
PAUSES = st.sampled_from((0.0, 0.0, 1.0, 10.0, 29.0, 61.0, 130.0, 181.0, 400.0))
OUTAGES = ((Trouble.ANSWER_LOST, *[Trouble.DOWN] * 3), (Trouble.DOWN,) * 8)
"""From just after the claim was taken, and for longer than a settlement waits."""
TROUBLES = (
    st.just(()) | st.lists(st.sampled_from(Trouble), min_size=1, max_size=4).map(tuple) | st.sampled_from(OUTAGES)
)


@dataclass(frozen=True)
class Delivery:
    """One delivery, and the pause until the next order. Every order may bring one: without them nothing happens."""

    second: bool
    owner: int
    troubles: tuple[Trouble, ...]
    lag: float
    pause: float


DELIVERIES = st.builds(
    Delivery,
    second=st.booleans(),
    owner=NUMBERS,
    troubles=TROUBLES,
    lag=st.sampled_from((0.0, 4.0)),
    pause=PAUSES,
)
MAYBE = st.none() | DELIVERIES


class Claims(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.logs = capture_logs()
        self.logs.__enter__()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        self.runner.run(work)

    def owner(self, number: int) -> Owner:
        return self.model.owners[number % len(self.model.owners)]

    @initialize(
        owners=st.integers(2, 5),
        counted=st.booleans(),
        heals=st.sampled_from(ENDS[1:3]),
        ceiling=st.sampled_from((1, 3)),
    )
    def begin(self, owners: int, *, counted: bool, heals: str, ceiling: int) -> None:
        async def make() -> None:
            self.model = ClaimModel(owners, counted=counted, ceiling=ceiling)

        self.do(make())
        self.heals = heals

    async def _deliver(self, plan: Delivery | None) -> None:
        if plan is None:
            return
        message, owner = self.model.message(second=plan.second), self.owner(plan.owner)
        if message.deliveries < MOST_DELIVERIES:
            owner.store.troubles.extend(plan.troubles)
            self.model.deliver(message, owner, lag=plan.lag)
        await self.model.advance(plan.pause)

    @rule(delivery=DELIVERIES)
    def deliver(self, delivery: Delivery) -> None:
        self.do(self._deliver(delivery))

    @rule(delivery=MAYBE, seconds=st.sampled_from((43_200.0, 85_800.0)))
    def wait_until_claims_go(self, delivery: Delivery | None, seconds: float) -> None:
        async def wait() -> None:
            await self._deliver(delivery)
            await self.model.advance(seconds)

        self.do(wait())

    @rule(
        delivery=MAYBE,
        index=NUMBERS,
        code=st.sampled_from(ENDS),
        troubles=TROUBLES,
        pause=PAUSES,
        interrupted=st.booleans(),
    )
    def finish(
        self,
        delivery: Delivery | None,
        index: int,
        code: str,
        troubles: tuple[Trouble, ...],
        pause: float,
        *,
        interrupted: bool,
    ) -> None:
        async def end() -> None:
            await self._deliver(delivery)
            able = [work for work in self.model.works if not (work.finish.done() or work.owner.clock.stalled)]
            if able:
                work = able[index % len(able)]
                work.owner.store.troubles.extend(troubles)
                work.finish.set_result(code)
                await self.model.advance(1)
                if interrupted:
                    self.model.interrupt(work.message)
            await self.model.advance(pause)

        self.do(end())

    @rule(delivery=DELIVERIES, after=DELIVERIES, seconds=st.sampled_from((10.0, 181.0)))
    def excuse_in_an_outage(self, delivery: Delivery, after: Delivery, seconds: float) -> None:
        """What ends uncounted cannot be released for longer than its delivery waits."""

        async def end() -> None:
            await self._deliver(delivery)
            for work in [work for work in self.model.works if not (work.finish.done() or work.owner.clock.stalled)]:
                work.owner.store.troubles.extend(OUTAGES[1])
                work.finish.set_result("run_lease_busy")
            await self.model.advance(seconds)
            await self._deliver(after)

        self.do(end())

    @rule(delivery=MAYBE, number=NUMBERS)
    def crash(self, delivery: Delivery | None, number: int) -> None:
        async def kill() -> None:
            await self._deliver(delivery)
            self.owner(number).die()
            await self.model.advance(0)

        self.do(kill())

    @rule(delivery=MAYBE, number=NUMBERS)
    def drain(self, delivery: Delivery | None, number: int) -> None:
        """SIGTERM; ten seconds later, SIGKILL."""

        async def end() -> None:
            await self._deliver(delivery)
            owner = self.owner(number)
            owner.worker.lifecycle.drain()
            await self.model.advance(10)
            owner.die()
            await self.model.advance(0)

        self.do(end())

    @rule(before=MAYBE, meanwhile=MAYBE, number=NUMBERS, seconds=PAUSES, troubles=TROUBLES)
    def stall(
        self,
        before: Delivery | None,
        meanwhile: Delivery | None,
        number: int,
        seconds: float,
        troubles: tuple[Trouble, ...],
    ) -> None:
        """No CPU for a while."""

        async def pause() -> None:
            await self._deliver(before)
            owner = self.owner(number)
            owner.clock.stall()
            self.model.silent(owner)
            for work in self.model.works:
                work.stalled = work.stalled or work.owner is owner
            await self.model.advance(seconds)
            await self._deliver(meanwhile)
            owner.store.troubles.extend(troubles)
            if owner.alive:
                owner.clock.go_on()
            await self.model.advance(0)

        self.do(pause())

    @rule(before=MAYBE, meanwhile=MAYBE, number=NUMBERS, seconds=st.sampled_from((60.0, 175.0, 181.0, 400.0)))
    def cut_off(self, before: Delivery | None, meanwhile: Delivery | None, number: int, seconds: float) -> None:
        """No way to the store for a while, of which the other delivery sees the end."""

        async def cut() -> None:
            await self._deliver(before)
            owner = self.owner(number)
            owner.store.cut_until = self.model.clock.monotonic() + seconds
            self.model.silent(owner)
            await self.model.advance(seconds - 1)
            await self._deliver(meanwhile)

        self.do(cut())

    @rule(delivery=MAYBE, number=NUMBERS, seconds=st.sampled_from((-300, 300)))
    def clock_jumps(self, delivery: Delivery | None, number: int, seconds: int) -> None:
        self.owner(number).clock.jump(seconds)
        self.do(self._deliver(delivery))

    @invariant()
    def everything_held(self) -> None:
        if hasattr(self, "model"):
            assert not self.model.faults, self.model.faults

    def teardown(self) -> None:
        try:
            if hasattr(self, "model"):
                self.do(self.model.come_to_rest(self.heals))
                self.everything_held()
        finally:
            self.logs.__exit__(None, None, None)
            self.runner.close()


Claims.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestClaims = pytest.mark.timeout(600)(Claims.TestCase)  # only a failure takes minutes: it is made small
