"""Ordered faults are used once per call, in order, and only where they apply."""

from __future__ import annotations

import pytest

from sandbox.faults import FaultQueue


def test_a_fault_is_used_as_often_as_it_was_ordered_and_then_the_next_one() -> None:
    queue = FaultQueue[str]()
    queue.order("slow", times=2)
    queue.order("down")
    assert [queue.take(lambda _: True) for _ in range(4)] == ["slow", "slow", "down", None]


def test_a_fault_waits_for_the_call_it_applies_to_without_holding_back_the_others() -> None:
    queue = FaultQueue[str]()
    queue.order("for b")
    queue.order("for a")
    assert queue.take(lambda fault: fault == "for a") == "for a"
    assert queue.take(lambda fault: fault == "for a") is None
    assert len(queue) == 1


def test_a_fault_without_an_end_goes_on_until_it_is_cleared() -> None:
    queue = FaultQueue[str]()
    queue.order("down", times=None)
    assert [queue.take(lambda _: True) for _ in range(3)] == ["down"] * 3
    queue.clear()
    assert queue.take(lambda _: True) is None


def test_a_fault_cannot_be_ordered_for_no_call() -> None:
    with pytest.raises(ValueError, match="times is 0"):
        FaultQueue[str]().order("down", times=0)
