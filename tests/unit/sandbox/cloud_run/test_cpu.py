from __future__ import annotations

import signal

from runtime.adapters.clock import ManualClock
from sandbox.cloud_run.cpu import Cpu

STOP, CONTINUE = signal.SIGSTOP, signal.SIGCONT


class Setting:
    def __init__(self, *, idle: bool = True) -> None:
        self.clock = ManualClock()
        self.sent: list[signal.Signals] = []
        self.cpu = Cpu(self.sent.append, idle=idle, linger=1, clock=self.clock)


async def test_the_cpu_goes_after_the_linger_and_comes_back_with_the_next_hold() -> None:
    it = Setting()
    with it.cpu.held():
        await it.clock.advance(60)
        assert it.sent == []
    await it.clock.advance(0.9)
    assert it.sent == []
    await it.clock.advance(0.1)
    assert it.sent == [STOP]
    with it.cpu.held():
        assert it.sent == [STOP, CONTINUE]
    await it.cpu.keep()


async def test_a_new_hold_during_the_linger_begins_it_anew() -> None:
    it = Setting()
    with it.cpu.held():
        pass
    await it.clock.advance(0.9)
    with it.cpu.held():
        await it.clock.advance(5)
        assert it.sent == []
    await it.clock.advance(0.9)
    assert it.sent == []
    await it.clock.advance(0.1)
    assert it.sent == [STOP]
    await it.cpu.keep()


async def test_holds_may_overlap() -> None:
    it = Setting()
    with it.cpu.held():
        with it.cpu.held():
            pass
        await it.clock.advance(60)
    assert it.sent == []
    await it.cpu.keep()


async def test_an_instance_that_ends_has_its_cpu_for_good() -> None:
    it = Setting()
    with it.cpu.held():
        pass
    await it.clock.advance(2)
    await it.cpu.keep()
    with it.cpu.held():
        pass
    await it.clock.advance(60)
    assert it.sent == [STOP, CONTINUE]


async def test_a_cpu_that_is_always_allocated_is_never_taken() -> None:
    it = Setting(idle=False)
    with it.cpu.held():
        pass
    await it.clock.advance(60)
    assert it.sent == []
