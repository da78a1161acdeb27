"""One subscription's messages: order, leases, delays, ordering keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from sandbox.pubsub.backlog import Backlog, Entry, Lease
from tests.support.brokers import NOW, message


class Rig:
    """A backlog that gives out lease ids."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.changes = 0
        self.backlog = Backlog(ordered=ordered, on_change=self._changed)
        self._ids = 0

    def _changed(self) -> None:
        self.changes += 1

    def add(self, number: int, key: str = "", now: float = 0) -> None:
        self.backlog.add(message(number, ordering_key=key), attempts=0, now=now)

    def lease(self, now: float = 0, deadline: float | None = None) -> Lease:
        entry = self.backlog.next_ready(now)
        assert entry is not None, "a message had to be ready"
        self._ids += 1
        return self.backlog.lease(entry, str(self._ids), now=now, deadline=deadline)

    def next_id(self, now: float = 0) -> int | None:
        entry = self.backlog.next_ready(now)
        return None if entry is None else entry.message.id


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_messages_come_in_the_order_of_publication(rig: Rig) -> None:
    for number in (2, 1, 3):
        rig.add(number)
    assert [rig.lease().message.id for _ in range(3)] == [1, 2, 3]
    assert rig.next_id() is None
    assert (rig.backlog.pending, rig.backlog.in_flight, len(rig.backlog)) == (0, 3, 3)


def test_a_message_that_is_there_already_is_not_added_again(rig: Rig) -> None:
    rig.add(1)
    rig.lease()
    rig.add(1)
    assert rig.next_id() is None


def test_a_message_put_back_waits_for_its_time_and_others_overtake_it(rig: Rig) -> None:
    rig.add(1)
    rig.add(2)
    first = rig.lease()
    assert rig.backlog.put_back(first, 10)
    assert rig.lease(now=5).message.id == 2
    assert rig.next_id(now=9.9) is None
    assert rig.backlog.next_moment() == 10
    again = rig.lease(now=10)
    assert (again.message.id, again.attempt, first.attempt) == (1, 2, 1)


def test_a_message_put_back_at_the_same_moment_is_ready_once(rig: Rig) -> None:
    rig.add(1)
    rig.backlog.put_back(rig.lease(now=0), 0)
    rig.lease(now=0)
    assert rig.next_id(now=0) is None


def test_a_removed_message_does_not_come_back(rig: Rig) -> None:
    rig.add(1)
    lease = rig.lease()
    assert rig.backlog.remove(lease.entry)
    assert not rig.backlog.remove(lease.entry)
    assert not rig.backlog.put_back(lease, 0)
    assert rig.backlog.find(lease.id) is None
    assert len(rig.backlog) == 0


def test_a_delivery_that_is_over_cannot_be_put_back_again(rig: Rig) -> None:
    rig.add(1)
    first = rig.lease()
    rig.backlog.put_back(first, 0)
    second = rig.lease()
    assert not rig.backlog.put_back(first, 0)
    assert rig.backlog.find(second.id) is second


def test_a_deferred_message_is_not_counted(rig: Rig) -> None:
    rig.add(1)
    rig.add(2)
    entry = rig.backlog.next_ready(0)
    assert isinstance(entry, Entry)
    rig.backlog.defer(entry, 5)
    assert rig.next_id() == 2
    rig.lease()
    assert rig.lease(now=5).attempt == 1


def test_deliveries_lapse_at_their_deadline_oldest_first_and_can_be_extended(rig: Rig) -> None:
    for number in (1, 2, 3):
        rig.add(number)
    first, second, third = rig.lease(deadline=20), rig.lease(deadline=10), rig.lease(deadline=None)
    assert rig.backlog.next_moment() == 10
    assert rig.backlog.lapsed(9.9) == []
    assert rig.backlog.lapsed(20) == [second, first]
    rig.backlog.extend(second, 30)
    assert rig.backlog.lapsed(20) == [first]
    rig.backlog.remove(second.entry)
    rig.backlog.extend(second, 1)
    assert rig.backlog.lapsed(100) == [first]
    assert rig.backlog.find(third.id) is third, "without a deadline it never lapses"


def test_messages_of_one_key_go_one_after_another_and_other_keys_meanwhile() -> None:
    rig = Rig(ordered=True)
    for number, key in enumerate(["a", "a", "b", "", "a"], 1):
        rig.add(number, key)
    first = rig.lease()
    assert [rig.lease().message.id for _ in range(2)] == [3, 4]
    assert rig.next_id() is None, "the key has a delivery under way"
    rig.backlog.put_back(first, 7)
    assert rig.next_id(now=6) is None, "later ones wait for a failed one"
    assert rig.backlog.next_moment() == 7
    first = rig.lease(now=7)
    rig.backlog.remove(first.entry)
    second = rig.lease(now=7)
    assert second.message.id == 2
    rig.backlog.remove(second.entry)
    assert rig.lease(now=7).message.id == 5


def test_removing_a_waiting_message_of_a_key_keeps_the_order_of_the_others() -> None:
    rig = Rig(ordered=True)
    for number in (1, 2, 3):
        rig.add(number, "a")
    first, second, _ = list(rig.backlog)
    rig.backlog.remove(second)
    assert rig.next_id() == 1
    rig.backlog.remove(first)
    assert rig.lease().message.id == 3


def test_ordering_keys_mean_nothing_where_the_subscription_does_not_ask_for_order(rig: Rig) -> None:
    rig.add(1, "a")
    rig.add(2, "a")
    assert [rig.lease().message.id for _ in range(2)] == [1, 2]


def test_messages_published_until_a_moment_are_found(rig: Rig) -> None:
    for number in range(4):
        rig.backlog.add(message(number, published=NOW + timedelta(seconds=number)), attempts=0, now=0)
    found = rig.backlog.published_before(NOW + timedelta(seconds=1))
    assert [entry.message.id for entry in found] == [0, 1]


def test_every_change_is_told(rig: Rig) -> None:
    steps: list[Callable[[], object]] = [
        lambda: rig.add(1),
        lambda: rig.backlog.put_back(rig.lease(), 0),
        lambda: rig.backlog.extend(rig.lease(), 1),
        lambda: rig.backlog.remove(next(iter(rig.backlog))),
    ]
    for step in steps:
        before = rig.changes
        step()
        assert rig.changes > before
