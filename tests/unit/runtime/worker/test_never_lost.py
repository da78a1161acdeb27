"""Whatever the store, the process and the order of deliveries do: no message is lost, none is worked twice at once.

Random faults at every call to the store, among them the death of the process. Not covered: a process whose clock
stands still while others' goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.contract.outcomes import Verdict, outcome
from runtime.ports.documents import Write
from runtime.worker.workload import Ended
from tests.support.deliveries import DeliveryBench, Worker, envelope
from tests.support.faulty_documents import Fault, FaultyDocuments

STEPS = (0.0, 1.0, 29.0, 61.0, 181.0, 600.0)
ENDS = ("completed", "execution_failed", "run_lease_busy", "invalid_execution_request")


@dataclass(frozen=True)
class Delivery:
    """One delivery: what its process meets, how its work would go, and how long until the next one."""

    faults: tuple[Fault | None, ...]
    killed_at: int | None
    seconds: float
    ends: str
    pause: float


DELIVERIES = st.lists(
    st.builds(
        Delivery,
        faults=st.lists(st.sampled_from([None, None, *Fault]), max_size=6).map(tuple),
        killed_at=st.none() | st.integers(0, 6),
        seconds=st.sampled_from((0.0, 45.0, 200.0)),
        ends=st.sampled_from(ENDS),
        pause=st.sampled_from(STEPS),
    ),
    min_size=1,
    max_size=8,
)


class Scenario:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bench = DeliveryBench(self.clock, heartbeat=60)
        self.running: list[asyncio.Task[str]] = []
        self.answers: list[str] = []
        self.effects = 0
        self.number = 0

    def start(self, plan: Delivery) -> Worker:
        async def work(stop: asyncio.Event) -> Ended | None:
            stopped = asyncio.create_task(stop.wait())
            try:
                async with self.clock.timeout(plan.seconds or None):
                    if plan.seconds:
                        await stopped
                        return None
            except TimeoutError:
                pass
            finally:
                stopped.cancel()
                await asyncio.wait({stopped})
            self.effects += plan.ends == "completed"
            return Ended(plan.ends)

        self.bench.workload.run = work
        store = FaultyDocuments(self.bench.memory)
        worker = self.bench.worker(store)
        self.number += 1
        delivery = worker.start(envelope(attempt=self.number))

        def choose(number: int, _kind: str, _writes: Sequence[Write]) -> Fault | None:
            if plan.killed_at is not None and number >= plan.killed_at:
                delivery.cancel()
                return Fault.CANCELLED_BEFORE
            return plan.faults[number] if number < len(plan.faults) else None

        store.choose = choose
        self.running.append(delivery)
        return worker

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        letters = len(await self.bench.letters())
        for delivery in [one for one in self.running if one.done()]:
            self.running.remove(delivery)
            if delivery.cancelled():
                continue
            code = delivery.result()
            self.answers.append(code)
            if outcome(code).verdict is Verdict.ACK:
                dead = code == "dead_letter_window_exhausted"
                assert letters if dead else self.effects, f"acknowledged with {code} and nothing to show for it"
        assert self.bench.workload.most_active <= 1, "two owners worked at the same time"

    @property
    def acknowledged(self) -> bool:
        return any(outcome(code).verdict is Verdict.ACK for code in self.answers)


async def _walk(plans: list[Delivery]) -> None:
    scenario = Scenario()
    for plan in plans:
        scenario.start(plan)
        await scenario.advance(plan.pause)
    await scenario.advance(600)
    healthy = Delivery((), None, 0.0, plans[-1].ends.replace("run_lease_busy", "execution_failed"), 0.0)
    for _ in range(14):
        if scenario.acknowledged:
            break
        scenario.start(healthy)
        await scenario.advance(600)
    assert scenario.acknowledged, f"never settled: {scenario.answers}"
    assert not scenario.running


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(DELIVERIES)
def test_every_message_ends_in_its_effect_or_in_a_letter(plans: list[Delivery]) -> None:
    with capture_logs():
        asyncio.run(_walk(plans))
