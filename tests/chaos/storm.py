"""Carries a plan out on a running stack."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from sandbox.cloud_run.faults import Action
from sandbox.identity import faults as identity
from sandbox.pubsub import faults as pubsub
from tests.chaos.plan import Disturbance, Event, Plan
from tests.support.local import WORKER, RunningStack

REORDER_SECONDS: Final = 2.0
KILL_PAUSE: Final = 0.05
"""Between two looks for a worker at work, seconds."""
KILL_LOOKS: Final = 40
PUSHES: Final = {
    Disturbance.DUPLICATE: pubsub.Fault(step=pubsub.Step.PUSH, effect=pubsub.Effect.DUPLICATE),
    Disturbance.REORDER: pubsub.Fault(step=pubsub.Step.PUSH, effect=pubsub.Effect.REORDER, seconds=REORDER_SECONDS),
    Disturbance.UNANSWERED: pubsub.Fault(step=pubsub.Step.PUSH, effect=pubsub.Effect.DROP_RESPONSE),
    Disturbance.REPUBLISHED: pubsub.Fault(step=pubsub.Step.PUBLISH, effect=pubsub.Effect.DUPLICATE),
}


class Storm:
    """The troubles of one run.

    Attributes:
        counts: what was done, by its name in the summary.
    """

    def __init__(self, running: RunningStack, plan: Plan) -> None:
        self._running = running
        self._plan = plan
        self.counts: Counter[str] = Counter()
        for faults in plan.instances:
            running.stack.cloud_run.order_faults(WORKER, faults)

    async def blow(self) -> None:
        """Lasts until the last trouble of the plan is over; what instances were told stays with them."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for event in self._plan.events:
                await asyncio.sleep(began + event.at - time.monotonic())
                if event.what is Disturbance.KILL:
                    await self._kill(event)
                    continue
                self.counts[event.what] += event.amount
                if event.what is Disturbance.KEYS:
                    group.create_task(self._without_keys(event.amount))
                else:
                    self._running.stack.pubsub.faults.order(PUSHES[event.what], times=event.amount)
        self._running.stack.pubsub.faults.clear()

    def met(self) -> Counter[str]:
        """What the instances that have started were told, by kind."""
        told: Counter[str] = Counter()
        for faults in self._plan.instances[: self._started()]:
            for fault in faults:
                if fault.action is Action.SKEW:
                    told[f"clocks at {fault.seconds:+.0f} s"] += 1
                else:
                    told[f"instances told: {fault.action} at {fault.point}"] += 1
        return told

    def _started(self) -> int:
        return len({line.instance for line in self._running.logs.lines if line.service == WORKER}) - 1

    async def _kill(self, event: Event) -> None:
        """Ends a worker that has something to lose; none is found where the machine is too busy to have one."""
        cloud_run = self._running.stack.cloud_run
        for _ in range(KILL_LOOKS):
            at_work = [one.id for one in cloud_run.instances(WORKER) if one.in_flight]
            if at_work:
                cloud_run.kill(WORKER, instance=at_work[event.amount % len(at_work)])
                self.counts[event.what] += 1
                return
            await asyncio.sleep(KILL_PAUSE)

    async def _without_keys(self, seconds: float) -> None:
        faults = self._running.stack.identity.faults
        faults.order(identity.Fault(step=identity.Step.KEYS, status=503), times=None)
        await asyncio.sleep(seconds)
        faults.clear()
