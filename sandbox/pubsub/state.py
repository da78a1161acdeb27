"""What the broker knows: backlogs of the declared subscriptions, and every way that a message can go."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from runtime.contract.errors import HoldfastError
from runtime.ports.clock import Clock
from sandbox.pubsub.backlog import Backlog, Entry, Lease
from sandbox.pubsub.dead_letter import DeadLetters, dead_letter
from sandbox.pubsub.declared import Declarations, Subscription
from sandbox.pubsub.journal_file import Attempted, Record, Recovery, Removed, Settled, Stored, Waiting
from sandbox.pubsub.message import Draft, Message

ACK_ID: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]+", re.ASCII)
"""What every ack id looks like: which life of the service gave it out, and its number."""

log = structlog.get_logger()


class NotDeclared(HoldfastError):
    """A topic or subscription that the program does not declare."""

    code = "not_found"


class Notes(Protocol):
    """Where changes are recorded, in order; see Journal.note."""

    def note(self, *records: Record) -> None:
        """Records changes."""
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the messages of one subscription are.

    Attributes:
        pending: waiting for a delivery.
        in_flight: being delivered.
        acknowledged, dead_lettered, expired: gone that way since the service started.
    """

    pending: int
    in_flight: int
    acknowledged: int
    dead_lettered: int
    expired: int


class Feed:
    """One subscription at work.

    Attributes:
        subscription: as declared now.
        backlog: its unacknowledged messages.
        changed: set after every change; whoever waits for something clears it and looks again.
    """

    def __init__(self, subscription: Subscription, changed: asyncio.Event) -> None:
        self.subscription = subscription
        self.changed = asyncio.Event()
        self._any_changed = changed
        self.backlog = Backlog(ordered=subscription.ordered, on_change=self.touch)
        self.acknowledged = self.dead_lettered = self.expired = 0

    def touch(self) -> None:
        """Wakes whoever waits for this subscription."""
        self.changed.set()
        self._any_changed.set()

    def counts(self) -> Counts:
        """See Counts."""
        return Counts(self.backlog.pending, self.backlog.in_flight, self.acknowledged, self.dead_lettered, self.expired)


class Broker:
    """Topics, subscriptions and messages in memory. No I/O: what must survive goes to `notes`.

    Args:
        declared: topics and subscriptions.
        dead_letters: decides what is forwarded.
        clock: message times, deadlines, delays.
        notes: the journal.
        recovery: what the journal knew at start; messages of subscriptions that are not declared stay there untouched.
    """

    def __init__(
        self, declared: Declarations, dead_letters: DeadLetters, clock: Clock, notes: Notes, recovery: Recovery
    ) -> None:
        self.declared = declared
        self.changed = asyncio.Event()
        """Set after every change anywhere."""
        self.on_sync: Callable[[], None] = lambda: None
        """Called whenever the declared world was read again."""
        self._dead_letters = dead_letters
        self._clock = clock
        self._notes = notes
        self._feeds: dict[str, Feed] = {}
        self._dormant: dict[str, list[Waiting]] = {}
        for waiting in recovery.waiting:
            self._dormant.setdefault(waiting.subscription, []).append(waiting)
        self._last_id = max(recovery.last_id, int(clock.now().timestamp() * 1_000_000))
        # Ids of an earlier life of this service must not acknowledge anything in this one.
        life = secrets.token_hex(8)
        self._lease_ids = (f"{life}-{number:x}" for number in itertools.count(1))

    def sync(self) -> None:
        """Follows the declared world: new subscriptions begin, removed ones lose their messages."""
        if not self.declared.refresh():
            return
        for name, subscription in self.declared.subscriptions.items():
            feed = self._feeds.get(name)
            if feed is None:
                feed = self._feeds[name] = Feed(subscription, self.changed)
                for waiting in self._dormant.pop(name, []):
                    feed.backlog.add(waiting.message, attempts=waiting.attempts, now=self._clock.monotonic())
            feed.subscription = subscription
            feed.touch()
        kept = self.declared.subscriptions.keys() | self.declared.unreadable.keys()
        gone = [name for name in self._feeds if name not in kept]
        for name in gone:
            self._feeds.pop(name).touch()
            self._notes.note(Removed(name))
        self.on_sync()

    def __iter__(self) -> Iterator[Feed]:
        return iter(list(self._feeds.values()))

    def feed(self, name: str) -> Feed:
        """A subscription by its full name.

        Raises:
            NotDeclared
        """
        self.sync()
        feed = self._feeds.get(name)
        if feed is None:
            raise NotDeclared(f"subscription {name} is not declared; declare it in the program")
        return feed

    def topic(self, name: str) -> Mapping[str, str]:
        """Labels of a topic by its full name.

        Raises:
            NotDeclared
        """
        self.sync()
        labels = self.declared.topics.get(name)
        if labels is None:
            raise NotDeclared(f"topic {name} is not declared; declare it in the program")
        return labels

    def draw_up(self, topic: str, drafts: Iterable[Draft]) -> list[Stored]:
        """Messages with ids, and who gets them; nobody does before `admit`.

        Raises:
            NotDeclared: the topic is not declared.
        """
        self.topic(topic)
        feeds = [feed for feed in self._feeds.values() if feed.subscription.topic == topic]
        return [self._draw_up_one(topic, draft, feeds) for draft in drafts]

    def _draw_up_one(self, topic: str, draft: Draft, feeds: Sequence[Feed]) -> Stored:
        self._last_id += 1
        message = Message(
            id=self._last_id,
            topic=topic,
            published=self._clock.now(),
            data=draft.data,
            attributes=draft.attributes,
            ordering_key=draft.ordering_key,
        )
        takers = (feed.subscription for feed in feeds if feed.subscription.matches(draft.attributes))
        return Stored(message, tuple(taker.name for taker in takers))

    def admit(self, stored: Iterable[Stored]) -> None:
        """Makes messages deliverable."""
        now = self._clock.monotonic()
        for record in stored:
            for name in record.subscriptions:
                if name in self._feeds:
                    self._feeds[name].backlog.add(record.message, attempts=0, now=now)

    def lease(self, feed: Feed, entry: Entry, seconds: float | None) -> Lease:
        """Begins the delivery of a ready message.

        Args:
            feed: the subscription.
            entry: from `feed.backlog.next_ready`.
            seconds: until it counts as failed; None where the caller ends it in any case.
        """
        now = self._clock.monotonic()
        deadline = None if seconds is None else now + seconds
        lease = feed.backlog.lease(entry, next(self._lease_ids), now=now, deadline=deadline)
        self._notes.note(Attempted(feed.subscription.name, entry.message.id, lease.attempt))
        return lease

    def take(self, feed: Feed, limit: int) -> list[Lease]:
        """Begins deliveries for a pull: up to `limit` ready messages, each for the subscription's ack deadline."""
        self.lapse(feed)
        now, found = self._clock.monotonic(), list[Lease]()
        while len(found) < limit and (entry := feed.backlog.next_ready(now)) is not None:
            found.append(self.lease(feed, entry, feed.subscription.ack_deadline.total_seconds()))
        return found

    def acknowledge(self, feed: Feed, leases: Iterable[Lease]) -> list[Settled]:
        """Ends messages for good; what is returned has to be recorded. A delivery that is over already is ignored."""
        settled = [
            Settled(feed.subscription.name, lease.message.id)
            for lease in leases
            if feed.backlog.find(lease.id) is lease and feed.backlog.remove(lease.entry)
        ]
        feed.acknowledged += len(settled)
        return settled

    def reject(self, feed: Feed, lease: Lease) -> None:
        """Ends a delivery as failed: to the dead-letter topic, or back after the retry policy's delay."""
        if feed.backlog.find(lease.id) is not lease:
            return
        subscription = feed.subscription
        topic = self._dead_letters.destination(subscription, lease.attempt, self.declared.topics)
        if topic is not None:
            self._forward(feed, lease, topic)
            return
        delay = subscription.retry.delay(lease.attempt) if subscription.retry else 0.0
        feed.backlog.put_back(lease, self._clock.monotonic() + delay)

    def _forward(self, feed: Feed, lease: Lease, topic: str) -> None:
        name, message = feed.subscription.name, lease.message
        copies = self.draw_up(topic, [dead_letter(feed.subscription, message, lease.attempt)])
        # One entry of the journal: after a crash the message is in one of the two places, never in neither.
        self._notes.note(*(copy for copy in copies if copy.subscriptions), Settled(name, message.id))
        feed.backlog.remove(lease.entry)
        feed.dead_lettered += 1
        self.admit(copies)
        if not any(copy.subscriptions for copy in copies):
            log.warning("dead_letter_lost", topic=topic, subscription=name, reason="the topic has no subscription")
        log.info("dead_lettered", subscription=name, topic=topic, message_id=message.id, attempts=lease.attempt)

    def lapse(self, feed: Feed) -> None:
        """Ends deliveries whose deadline has passed, as failed."""
        for lease in feed.backlog.lapsed(self._clock.monotonic()):
            self.reject(feed, lease)

    def expire(self, feed: Feed) -> None:
        """Drops messages that are older than the subscription's retention."""
        subscription = feed.subscription
        for entry in feed.backlog.published_before(self._clock.now() - subscription.retention):
            feed.backlog.remove(entry)
            feed.expired += 1
            self._notes.note(Settled(subscription.name, entry.message.id))
            log.warning("message_expired", subscription=subscription.name, message_id=entry.message.id)
