from __future__ import annotations

import asyncio
import signal
from collections import deque

import pytest

from runtime.adapters.clock import ManualClock
from sandbox.cloud_run.cpu import Cpu
from sandbox.cloud_run.probe_settings import ProbeSettings
from sandbox.cloud_run.probes import STARTUP_POLL, Prober
from sandbox.cloud_run.upstream import Exchange, NotConnected, Upstream

HANG = "hang"


class Unreachable(Upstream):
    """An instance whose port is closed, open, or silent, try by try; the last one goes on for ever."""

    def __init__(self, clock: ManualClock, *tries: str) -> None:
        super().__init__("/nonexistent", clock)
        self.tries = deque(tries)
        self.asked: list[float] = []
        self._time = clock

    async def exchange(self, *, head_only: bool = False) -> Exchange:
        self.asked.append(self._time.monotonic())
        now = self.tries[0] if len(self.tries) == 1 else self.tries.popleft()
        if now == HANG:
            await asyncio.Event().wait()
        if now == "closed":
            raise NotConnected("nobody listens")
        return OpenPort()


class OpenPort(Exchange):
    def __init__(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Setting:
    def __init__(self, *tries: str, idle: bool = False) -> None:
        self.clock = ManualClock()
        self.upstream = Unreachable(self.clock, *tries)
        self.sent: list[signal.Signals] = []
        self.cpu = Cpu(self.sent.append, idle=idle, linger=0.1, clock=self.clock)
        self.prober = Prober(self.upstream, "api.run.app", self.cpu, self.clock)
        self.changes: list[str | None] = []

    def watch(self, probe: ProbeSettings) -> asyncio.Task[None]:
        return asyncio.create_task(self.prober.watch(probe, self.changes.append))


async def test_a_start_passes_at_the_first_good_try() -> None:
    it = Setting("closed", "closed", "open")
    started = asyncio.create_task(it.prober.started(ProbeSettings(period=10, failures=1)))
    await it.clock.advance(2 * STARTUP_POLL)
    assert await started is None


async def test_a_start_fails_at_the_end_of_the_declared_window_with_the_last_reason() -> None:
    """BR-112: the window is the declared one."""
    it = Setting("closed")
    started = asyncio.create_task(it.prober.started(ProbeSettings(initial_delay=5, period=10, failures=3)))
    await it.clock.advance(34.9)
    assert not started.done()
    await it.clock.advance(0.2)
    assert await started == "nobody listens"
    assert it.upstream.asked[0] == 5


@pytest.mark.parametrize("failure", ["closed", HANG])
async def test_an_instance_is_bad_after_so_many_failures_in_a_row_and_no_sooner(failure: str) -> None:
    it = Setting("open", failure, failure, "open", failure, failure, failure)
    watch = it.watch(ProbeSettings(timeout=1, period=10, failures=3))
    await it.clock.advance(50)
    assert it.changes == [], "a good try in between begins the count anew"
    await it.clock.advance(50)
    assert len(it.changes) == 1
    assert it.changes[0] is not None
    watch.cancel()
    await asyncio.wait({watch})


async def test_an_instance_is_good_again_after_so_many_passes() -> None:
    it = Setting("closed", "closed", "open", "closed", "open", "open", "open")
    watch = it.watch(ProbeSettings(period=1, failures=2, successes=2))
    await it.clock.advance(10)
    assert [change is None for change in it.changes] == [False, True]
    watch.cancel()
    await asyncio.wait({watch})


async def test_an_instance_without_cpu_gets_it_for_the_length_of_a_probe() -> None:
    it = Setting("open", idle=True)
    watch = it.watch(ProbeSettings(period=10))
    await it.clock.advance(15)
    assert it.sent == [signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP]
    watch.cancel()
    await asyncio.wait({watch})
    await it.cpu.keep()
