"""Whatever happens in whatever order, crashes included: no message is lost, none comes back after its ack is on disk.

Does not cover the push loop's own tasks (test_push) nor the disk's honesty about fsync.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.pubsub.backlog import Lease
from sandbox.pubsub.journal_file import JournalFile, Record, Stored
from sandbox.pubsub.message import Draft
from sandbox.pubsub.state import Broker, Feed
from sandbox.world import World
from tests.support.brokers import Bench
from tests.support.worlds import empty_world, may_consume, may_publish, subscription, topic

JOBS, DEAD = "projects/p-test/topics/jobs", "projects/p-test/topics/dead"
MAIN, LETTERS = "projects/p-test/subscriptions/main", "projects/p-test/subscriptions/letters"


@dataclass(slots=True)
class SlowNotes:
    """A journal whose writer is behind: entries wait until they are flushed, each one whole."""

    waiting: list[tuple[Record, ...]] = field(default_factory=list)

    def note(self, *records: Record) -> None:
        self.waiting.append(records)


@dataclass(slots=True)
class Machine:
    """A broker over SQLite, and what may still come. A new life reads the same connection."""

    world: World
    file: JournalFile
    notes: SlowNotes = field(default_factory=SlowNotes)
    leases: list[Lease] = field(default_factory=list)
    published: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    """On disk."""
    bench: Bench = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def broker(self) -> Broker:
        return self.bench.broker

    @property
    def main(self) -> Feed:
        return self.broker.feed(MAIN)

    def start(self) -> None:
        """A new life, with what is on disk."""
        self.bench = Bench(self.world, recovery=self.file.recover())
        self.notes = SlowNotes()
        self.broker._notes = self.notes
        self.leases = []

    def flush(self, count: int | None = None) -> None:
        """Writes the oldest entries; None writes all."""
        done, self.notes.waiting = self.notes.waiting[:count], self.notes.waiting[count:] if count is not None else []
        self.file.apply(record for entry in done for record in entry)

    def publish(self, key: str) -> None:
        name = f"m{len(self.published)}"
        stored: list[Stored] = self.broker.draw_up(JOBS, [Draft(data=name.encode(), ordering_key=key)])
        self.flush()
        self.file.apply(stored)
        self.broker.admit(stored)
        self.published.add(name)

    def deliver(self, limit: int) -> None:
        taken = self.broker.take(self.main, limit)
        for lease in taken:
            name = lease.message.data.decode()
            assert name not in self.acknowledged, f"{name} came back after its acknowledgement was on disk"
        self.leases += taken
        in_flight = [lease for lease in self.leases if self.main.backlog.find(lease.id) is lease]
        ids = [lease.message.id for lease in in_flight]
        assert len(ids) == len(set(ids)), "one message is being delivered twice at a time"
        ordered = self.main.subscription.ordered
        keys = [lease.message.ordering_key for lease in in_flight if ordered and lease.message.ordering_key]
        assert len(keys) == len(set(keys)), "two messages of one key are being delivered at a time"

    def acknowledge(self, pick: int, *, durable: bool) -> None:
        if not self.leases:
            return
        lease = self.leases.pop(pick % len(self.leases))
        records = self.broker.acknowledge(self.main, [lease])
        self.notes.note(*records)
        if durable:
            self.flush()
            self.acknowledged |= {lease.message.data.decode()} if records else set()

    def reject(self, pick: int) -> None:
        if self.leases:
            self.broker.reject(self.main, self.leases.pop(pick % len(self.leases)))

    def crash(self, written: int) -> None:
        """Ends this life; of what was not on disk, the oldest entries made it there."""
        self.flush(min(written, len(self.notes.waiting)))
        self.start()

    def left(self) -> set[str]:
        """Messages that are somewhere: to be delivered, or dead-lettered."""
        feeds = (self.main, self.broker.feed(LETTERS))
        return {entry.message.data.decode() for feed in feeds for entry in feed.backlog}


@contextmanager
def machine(*, ordered: bool, attempts: int) -> Iterator[Machine]:
    world = empty_world(Path("unused"))
    topic(world, "jobs")
    topic(world, "dead")
    agent = world.agent("gcp-sa-pubsub")
    may_publish(world, "dead", agent)
    may_consume(world, "main", agent)
    letters = {"deadLetterTopic": DEAD, "maxDeliveryAttempts": attempts}
    subscription(world, "main", JOBS, enableMessageOrdering=ordered, deadLetterPolicy=letters, ackDeadlineSeconds=10)
    subscription(world, "letters", DEAD)
    file = JournalFile(Path(":memory:"))
    yield Machine(world, file)
    file.close()


_PICK = st.integers(0, 7)
_STEP = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("deliver"), st.integers(1, 4)),
    st.tuples(st.just("acknowledge"), _PICK),
    st.tuples(st.just("acknowledge lazily"), _PICK),
    st.tuples(st.just("reject"), _PICK),
    st.tuples(st.just("flush"), st.integers(1, 5)),
    st.tuples(st.just("crash"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([1, 11])),
)


def take(made: Machine, step: tuple[str, int | str]) -> None:
    kind, value = step
    number = value if isinstance(value, int) else 0
    match kind:
        case "publish":
            made.publish(str(value))
        case "deliver":
            made.deliver(number)
        case "acknowledge":
            made.acknowledge(number, durable=True)
        case "acknowledge lazily":
            made.acknowledge(number, durable=False)
        case "reject":
            made.reject(number)
        case "flush":
            made.flush(number)
        case "crash":
            made.crash(number)
        case _:
            made.bench.clock._elapsed += number  # nothing waits on it here, so nothing has to run


@settings(max_examples=80, deadline=None)
@given(ordered=st.booleans(), attempts=st.sampled_from([1, 3]), steps=st.lists(_STEP, min_size=15, max_size=60))
def test_every_message_is_acknowledged_waiting_or_dead_lettered_after_any_history(
    ordered: bool, attempts: int, steps: list[tuple[str, int | str]]
) -> None:
    with machine(ordered=ordered, attempts=attempts) as made:
        lazily: set[str] = set()
        for step in steps:
            before = made.left()
            take(made, step)
            if step[0] == "acknowledge lazily":
                lazily |= before - made.left()
        made.crash(10**6)
        left = made.left()
        assert made.acknowledged.isdisjoint(left), "an acknowledged message came back with a new life"
        assert made.published - made.acknowledged - lazily <= left, "a message was lost"


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(_STEP, min_size=10, max_size=40))
def test_messages_of_a_key_are_first_delivered_in_order_after_any_history(
    steps: list[tuple[str, int | str]],
) -> None:
    with machine(ordered=True, attempts=3) as made:
        for step in steps:
            take(made, step)
        made.crash(10**6)
        seen: list[tuple[str, int]] = []
        while made.main.backlog:
            made.deliver(10)
            assert made.leases, "something waits and nothing is ready"
            seen += [(lease.message.ordering_key, lease.message.id) for lease in made.leases]
            while made.leases:
                made.acknowledge(0, durable=True)
        for key in ("a", "b"):
            ids = [number for at, number in seen if at == key]
            assert ids == sorted(ids)
