"""A broker in memory, on a clock that tests move, with everything it records kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runtime.adapters.clock import ManualClock
from sandbox.identity.grants import Grants
from sandbox.pubsub.backlog import Lease
from sandbox.pubsub.dead_letter import DeadLetters
from sandbox.pubsub.declared import Declarations
from sandbox.pubsub.journal_file import Record, Recovery, Stored
from sandbox.pubsub.message import Draft, Message
from sandbox.pubsub.state import Broker, Feed
from sandbox.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class KeptNotes:
    """A journal that keeps its records in a list."""

    records: list[Record] = field(default_factory=list)

    def note(self, *records: Record) -> None:
        """See Notes."""
        self.records.extend(records)


@dataclass(slots=True)
class Bench:
    """A broker and all around it."""

    world: World
    clock: ManualClock = field(default_factory=ManualClock)
    notes: KeptNotes = field(default_factory=KeptNotes)
    recovery: Recovery = field(default_factory=Recovery)
    grants: Grants = field(init=False)
    broker: Broker = field(init=False)

    def __post_init__(self) -> None:
        self.grants = Grants(self.world, self.clock)
        letters = DeadLetters(self.grants, self.world.agent("gcp-sa-pubsub"))
        self.broker = Broker(Declarations(self.world), letters, self.clock, self.notes, self.recovery)
        self.broker.sync()

    def publish(self, topic: str, data: str = "x", **draft: Any) -> Stored:
        """Publishes one message, as if the journal had it already."""
        stored = self.broker.draw_up(topic, [Draft(data=data.encode(), **draft)])
        self.broker.admit(stored)
        return stored[0]

    def take(self, feed: Feed, limit: int = 1) -> list[Lease]:
        """Pulls."""
        return self.broker.take(feed, limit)

    def texts(self, feed: Feed, limit: int = 100) -> list[str]:
        """Pulls, and returns the data."""
        return [lease.message.data.decode() for lease in self.take(feed, limit)]


def message(number: int, data: str = "x", **fields: Any) -> Message:
    """A published message."""
    values: dict[str, Any] = {
        "topic": "projects/p-test/topics/jobs", "published": NOW, "attributes": {}, "ordering_key": "", **fields,
    }  # fmt: skip
    return Message(id=number, data=data.encode(), **values)
