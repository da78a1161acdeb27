"""Google Pub/Sub on this machine: the gRPC service, pushes, exports and the journal, started and stopped as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Final

import grpc.aio
import structlog

from runtime.ports.clock import Clock
from sandbox.identity.server import IdentityService
from sandbox.network import Address, Hosts
from sandbox.pubsub.access import AGENT, Access
from sandbox.pubsub.dead_letter import DeadLetters
from sandbox.pubsub.declared import Declarations
from sandbox.pubsub.endpoint import Endpoints
from sandbox.pubsub.export import ExportLoop, ExportTools
from sandbox.pubsub.faults import Faults
from sandbox.pubsub.journal import Journal
from sandbox.pubsub.message import Draft, check_drafts
from sandbox.pubsub.push import PushLoop, PushTools
from sandbox.pubsub.rpc import Methods
from sandbox.pubsub.state import Broker, Counts, Feed
from sandbox.storage.objects import ObjectFiles
from sandbox.world import World

TICK_SECONDS: Final = 1.0
"""How often retention, lapsed pull deadlines and changes of the declared world are looked at without a call."""
_REQUEST_BYTES: Final = 12 * 1024 * 1024
"""gRPC's own limit: above Pub/Sub's, so that its refusal is Pub/Sub's."""

log = structlog.get_logger()


class PubSub:
    """Topics and subscriptions of the declared world, at work.

    Args:
        world: what is declared.
        identity: tokens of callers and of pushes, and the grants.
        hosts: where push endpoints are.
        clock: every wait.
        state_dir: folder of the journal; private to its owner.
        faults: None means none; more can be ordered while the service runs.
    """

    def __init__(
        self,
        world: World,
        identity: IdentityService,
        hosts: Hosts,
        clock: Clock,
        state_dir: Path,
        faults: Faults | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self._world = world
        self._identity = identity
        self._clock = clock
        self._journal = Journal(state_dir)
        self._endpoints = Endpoints(hosts)
        self._broker: Broker | None = None
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._ticking: asyncio.Task[None] | None = None
        self._tools: PushTools
        self._export_tools: ExportTools
        self._loops: dict[Feed, asyncio.Task[None]] = {}
        self._exports: dict[Feed, tuple[ExportLoop, asyncio.Task[None]]] = {}
        self._pushing = False

    async def start(self, *, push: bool = True) -> None:
        """Takes up what the journal knows, and serves gRPC on a free port of loopback. Once.

        Args:
            push: begins to push at once; False waits for `push`, where what is pushed to is not there yet.

        Raises:
            JournalFailed
        """
        self._pushing = push
        recovery = await self._journal.open()
        agent = self._world.agent(AGENT)
        letters = DeadLetters(self._identity.grants, agent)
        self._broker = Broker(Declarations(self._world), letters, self._clock, self._journal, recovery)
        self._broker.on_sync = self._follow
        self._endpoints.open()
        self._tools = PushTools(
            broker=self._broker,
            notes=self._journal,
            post=self._endpoints.post,
            id_token=self._identity.id_token,
            grants=self._identity.grants,
            agent=agent,
            clock=self._clock,
            faults=self.faults,
        )
        self._export_tools = ExportTools(
            broker=self._broker,
            notes=self._journal,
            files=ObjectFiles(self._world.state_dir),
            grants=self._identity.grants,
            agent=agent,
            clock=self._clock,
        )
        self._server = grpc.aio.server(
            handlers=[Methods(self, Access(self._identity), self._clock)],
            options=[("grpc.max_receive_message_length", _REQUEST_BYTES), ("grpc.so_reuseport", 0)],
        )
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self.broker.sync()
        self._ticking = asyncio.create_task(self._tick(), name="pubsub-tick")
        self._ticking.add_done_callback(_report)

    def push(self) -> None:
        """Begins to push."""
        self._pushing = True
        self._follow()

    async def hold(self) -> None:
        """Ends every push, the ones under way too; a push that nobody can answer must not count as a delivery."""
        self._pushing = False
        loops = list(self._loops.values())
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        self._loops.clear()

    async def stop(self) -> None:
        """Ends calls and pushes; what is not acknowledged is delivered by the next service on this folder."""
        if self._broker is not None:
            self._broker.on_sync = lambda: None
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        await self.hold()
        await self._end_exports()
        await self._endpoints.close()
        await self._journal.close()

    @property
    def address(self) -> Address:
        """Where the gRPC service is."""
        return Address(port=self._port)

    @property
    def broker(self) -> Broker:
        """The state behind the service.

        Raises:
            RuntimeError: the service is not started.
        """
        if self._broker is None:
            raise RuntimeError("Pub/Sub is not started")
        return self._broker

    async def publish(self, topic: str, drafts: Sequence[Draft]) -> list[str]:
        """Publishes without asking who calls, and returns the ids once the messages are on disk.

        Args:
            topic: full name.
            drafts: 1 to 1000 messages.

        Raises:
            InvalidMessage, NotDeclared, JournalFailed
        """
        check_drafts(drafts)
        stored = self.broker.draw_up(topic, drafts)
        kept = [record for record in stored if record.subscriptions]
        if kept:
            durable = self._journal.write(*kept)
            # Not after the await: a caller that hangs up must not leave a message on disk that nobody gets.
            durable.add_done_callback(lambda done: None if done.exception() else self.broker.admit(kept))
            await asyncio.shield(durable)
        return [str(record.message.id) for record in stored]

    def settle(self, feed: Feed, ack_ids: Sequence[str]) -> Awaitable[None]:
        """Acknowledges deliveries; done when that is on disk. Ids of deliveries that are over are ignored."""
        leases = [lease for ack_id in ack_ids if (lease := feed.backlog.find(ack_id)) is not None]
        return self._journal.write(*self.broker.acknowledge(feed, leases))

    def sync(self) -> None:
        """Follows the declared world at once; otherwise that happens with the next call, or within a second."""
        self.broker.sync()

    def counts(self) -> dict[str, Counts]:
        """Full name of each subscription -> where its messages are."""
        self.sync()
        return {feed.subscription.name: feed.counts() for feed in self.broker}

    async def wait_idle(self, *subscriptions: str, timeout: float = 60) -> None:
        """Waits until every message of some subscriptions has gone one way or the other.

        Args:
            subscriptions: full names; none means all that push.
            timeout: seconds.

        Raises:
            TimeoutError
            NotDeclared
        """
        self.sync()
        async with self._clock.timeout(timeout):
            while True:
                self.broker.changed.clear()
                if subscriptions:
                    feeds = [self.broker.feed(name) for name in subscriptions]
                else:
                    feeds = [feed for feed in self.broker if feed.subscription.push is not None]
                if not any(len(feed.backlog) for feed in feeds):
                    return
                await self.broker.changed.wait()

    async def _end_exports(self) -> None:
        """Closes every open file: nothing is lost by it, and whoever looks next finds everything."""
        for loop, _ in self._exports.values():
            loop.end()
        await asyncio.gather(*(task for _, task in self._exports.values()), return_exceptions=True)
        self._exports.clear()

    def _follow(self) -> None:
        """Begins a loop for every subscription that pushes or exports and has none; ends those of removed ones."""
        feeds = list(self.broker)
        self._follow_exports(feeds)
        if not self._pushing:
            return
        for feed, task in list(self._loops.items()):
            if task.done():
                del self._loops[feed]
            elif feed not in feeds:
                task.cancel()
        for feed in feeds:
            # A subscription that stops pushing ends its loop by itself, when its last push is answered.
            if feed.subscription.push is not None and feed not in self._loops:
                name = f"pubsub-push-{feed.subscription.name}"
                self._loops[feed] = asyncio.create_task(PushLoop(feed, self._tools).run(), name=name)
                self._loops[feed].add_done_callback(_report)

    def _follow_exports(self, feeds: Sequence[Feed]) -> None:
        for feed, (loop, task) in list(self._exports.items()):
            if task.done():
                del self._exports[feed]
            elif feed not in feeds:
                loop.end()
        for feed in feeds:
            if feed.subscription.storage is not None and feed not in self._exports:
                loop = ExportLoop(feed, self._export_tools)
                task = asyncio.create_task(loop.run(), name=f"pubsub-export-{feed.subscription.name}")
                task.add_done_callback(_report)
                self._exports[feed] = (loop, task)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self.sync()
            self._follow()
            for feed in self.broker:
                self.broker.lapse(feed)
                self.broker.expire(feed)


def _report(task: asyncio.Task[None]) -> None:
    """Says why a task ended that never should."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("pubsub_failed", task=task.get_name(), exc_info=error)
