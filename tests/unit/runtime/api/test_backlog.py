"""What may wait for one caller, and for all of them together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.backlog import CALLER_BYTES, PROCESS_BYTES, SHARE_BYTES, Backlog, Backlogs


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(st.binary(max_size=50), st.integers(1, 60))), max_size=40))
def test_everything_that_was_put_is_taken_in_order_and_counted_once(steps: list[tuple[int, bytes | int]]) -> None:
    together = Backlogs()
    backlogs = [Backlog(together) for _ in range(3)]
    expected = [b""] * 3
    for number, step in steps:
        if isinstance(step, bytes):
            assert backlogs[number].put(step)
            expected[number] += step
        else:
            assert backlogs[number].take(step) == expected[number][:step]
            expected[number] = expected[number][step:]
        assert together.size == sum(map(len, expected)) == sum(map(len, backlogs))
    for backlog in backlogs:
        backlog.clear()
    assert together.size == 0


@pytest.mark.parametrize(("waiting", "more", "fits"), [(CALLER_BYTES - 1, 1, True), (CALLER_BYTES, 1, False)])
def test_a_caller_may_be_so_far_behind(waiting: int, more: int, *, fits: bool) -> None:
    backlog = Backlog(Backlogs())
    assert backlog.put(bytes(waiting))
    assert backlog.put(bytes(more)) is fits
    assert len(backlog) == waiting + more * fits


def test_a_caller_that_has_taken_everything_is_never_behind() -> None:
    assert Backlog(Backlogs()).put(bytes(CALLER_BYTES + 1))


@pytest.mark.parametrize(("own", "more", "fits"), [(1, SHARE_BYTES - 1, True), (1, SHARE_BYTES, False)])
def test_while_too_much_waits_for_others_each_has_its_share(own: int, more: int, *, fits: bool) -> None:
    together = Backlogs()
    assert Backlog(together).put(bytes(PROCESS_BYTES))
    backlog = Backlog(together)
    assert backlog.put(bytes(own))
    assert backlog.put(bytes(more)) is fits
