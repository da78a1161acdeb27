"""Writing one subscription's messages to a bucket: many to a file, and none acknowledged before its file is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from runtime.ports.clock import Clock
from sandbox.identity.grants import Grants
from sandbox.pubsub.access import READ_BUCKET, WRITE_OBJECTS
from sandbox.pubsub.backlog import Lease
from sandbox.pubsub.state import Broker, Feed, Notes
from sandbox.pubsub.storage_config import StorageConfig
from sandbox.storage.objects import ObjectFiles, UnwritableObject
from sandbox.world import Kind, Target, short_name

RETRY_SECONDS: Final = 1.0
"""How long nothing is written after a missing grant was found, or a file could not be written."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTools:
    """What every export of a service shares.

    Attributes:
        broker: where messages come from and go to.
        notes: the journal.
        files: objects of the buckets.
        grants: of the declared world.
        agent: member string of Pub/Sub's service agent, which does the writing.
        clock: when a file is closed.
    """

    broker: Broker
    notes: Notes
    files: ObjectFiles
    grants: Grants
    agent: str
    clock: Clock


@dataclass(slots=True)
class _OpenFile:
    """Messages on their way into one file."""

    config: StorageConfig
    closes: float
    leases: list[Lease] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        limit = self.config.max_messages
        return self.size >= self.config.max_bytes or bool(limit and len(self.leases) >= limit)


class ExportLoop:
    """The files of one subscription.

    Args:
        feed: the subscription; the loop ends where it turns into one that does not write to a bucket.
        tools: see ExportTools.
    """

    def __init__(self, feed: Feed, tools: ExportTools) -> None:
        self._feed = feed
        self._tools = tools
        self._clock = tools.clock
        self._open: _OpenFile | None = None
        self._paused_until = 0.0
        self._ending = False

    def end(self) -> None:
        """Closes the file that is open, and ends; whoever holds the task waits for it."""
        self._ending = True
        self._feed.touch()

    async def run(self) -> None:
        """Writes until `end`, or until the subscription writes to no bucket any more."""
        while not self._ending and (config := self._feed.subscription.storage) is not None:
            self._feed.changed.clear()
            now = self._clock.monotonic()
            self._fill(config, now)
            if self._open is not None and (self._open.is_full or self._open.closes <= now):
                await self._close(self._open)
            else:
                await self._changed(now)
        if self._open is not None:
            await self._close(self._open)

    def _fill(self, config: StorageConfig, now: float) -> None:
        """Takes what is ready into the open file, as long as it has room."""
        backlog = self._feed.backlog
        while (entry := backlog.next_ready(now)) is not None and (self._open is None or not self._open.is_full):
            if now < self._paused_until or not self._may_write(config, now):
                return
            file = self._open = self._open or _OpenFile(config, now + config.max_duration.total_seconds())
            encoded = file.config.encode(entry.message, self._feed.subscription.name)
            file.leases.append(self._tools.broker.lease(self._feed, entry, None))
            file.encoded.append(encoded)
            file.size += len(encoded)

    def _may_write(self, config: StorageConfig, now: float) -> bool:
        bucket = config.bucket
        step = f"export of {short_name(self._feed.subscription.name)} to bucket {bucket}"
        allowed = [
            self._tools.grants.allow(self._tools.agent, roles, Target(Kind.BUCKET, bucket), step=step)
            for roles in (WRITE_OBJECTS, READ_BUCKET)
        ]
        if all(allowed):
            return True
        self._paused_until = now + RETRY_SECONDS
        return False

    async def _changed(self, now: float) -> None:
        """Waits for a change, or for the moment at which something is to be done without one."""
        moments = [self._open.closes] if self._open is not None else []
        if (ready := self._feed.backlog.next_moment()) is not None:
            moments.append(max(ready, self._paused_until))
        try:
            async with self._clock.timeout(min(moments) - now if moments else None):
                await self._feed.changed.wait()
        except TimeoutError:
            return

    async def _close(self, file: _OpenFile) -> None:
        """Writes the file, and acknowledges what is in it; where it cannot be written, its messages come again."""
        self._open = None
        name = file.config.object_name(self._clock.now())
        body = file.config.file(file.encoded)
        subscription, bucket = self._feed.subscription.name, file.config.bucket
        try:
            await asyncio.to_thread(self._tools.files.create, bucket, name, body)
        except UnwritableObject as error:
            log.warning("export_failed", subscription=subscription, reason=error.line())
            self._paused_until = self._clock.monotonic() + RETRY_SECONDS
            for lease in file.leases:
                self._tools.broker.reject(self._feed, lease)
            return
        self._tools.notes.note(*self._tools.broker.acknowledge(self._feed, file.leases))
        log.info("exported", subscription=subscription, bucket=bucket, object=name, messages=len(file.leases))
