"""Pushing one subscription's messages: as many at once as the window allows, each until it is answered or too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from runtime.ports.clock import Clock
from sandbox.identity.grants import Grants
from sandbox.pubsub.access import MINT
from sandbox.pubsub.backlog import Entry, Lease
from sandbox.pubsub.backoff import PushBackoff
from sandbox.pubsub.declared import PushConfig, Subscription
from sandbox.pubsub.endpoint import ACKNOWLEDGING, PushFailed
from sandbox.pubsub.envelope import envelope
from sandbox.pubsub.faults import Effect, Fault, Faults, Step
from sandbox.pubsub.state import Broker, Feed, Notes
from sandbox.pubsub.window import PushWindow
from sandbox.world import Kind, Target, short_name

GRANT_CHECK_SECONDS: Final = 1.0
"""How long nothing is pushed after a missing grant was found, before it is looked for again."""
_UNAVAILABLE: Final = 503
"""Status of an ordered error that names none."""
_HOLDING: Final = frozenset({Effect.REORDER})
_SENDING: Final = frozenset(Effect) - _HOLDING

log = structlog.get_logger()


class Post(Protocol):
    """Posts a body; see Endpoints.post."""

    async def __call__(self, url: str, token: str | None, body: bytes, seconds: float) -> int:
        """Returns the status, or raises PushFailed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTools:
    """What every push loop of a service shares.

    Attributes:
        broker: where messages come from and go to.
        notes: the journal.
        post: sends.
        id_token: (account, audience) -> token.
        grants: of the declared world.
        agent: member string of Pub/Sub's service agent.
        clock: deadlines and delays.
        faults: what is to go wrong.
    """

    broker: Broker
    notes: Notes
    post: Post
    id_token: Callable[[str, str], str]
    grants: Grants
    agent: str
    clock: Clock
    faults: Faults


class PushLoop:
    """The pushes of one subscription.

    Args:
        feed: the subscription; the loop ends where it turns into one without push.
        tools: see PushTools.
    """

    def __init__(self, feed: Feed, tools: PushTools) -> None:
        self._feed = feed
        self._tools = tools
        self._clock = tools.clock
        self._window = PushWindow()
        self._backoff = PushBackoff()
        self._ungranted_until = 0.0
        self._deliveries: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Pushes until it is cancelled, or the subscription is not one for push any more."""
        try:
            while self._feed.subscription.push is not None:
                self._feed.changed.clear()
                now = self._clock.monotonic()
                entry, wait = self._next(now)
                if entry is None:
                    await self._changed(wait)
                else:
                    self._begin(self._tools.broker.lease(self._feed, entry, None))
            if self._deliveries:
                await asyncio.wait(self._deliveries)
        finally:
            for delivery in self._deliveries:
                delivery.cancel()
            await asyncio.gather(*self._deliveries, return_exceptions=True)

    async def _changed(self, seconds: float | None) -> None:
        try:
            async with self._clock.timeout(seconds):
                await self._feed.changed.wait()
        except TimeoutError:
            return

    def _begin(self, lease: Lease) -> None:
        delivery = asyncio.create_task(self._deliver(lease))
        self._deliveries.add(delivery)
        delivery.add_done_callback(lambda done: self._ended(done, lease))

    def _ended(self, delivery: asyncio.Task[None], lease: Lease) -> None:
        self._deliveries.discard(delivery)
        # A delivery that was cut short here, even before it began, is no refusal: its message is ready again.
        now = self._clock.monotonic()
        self._feed.backlog.put_back(lease, now)
        if not delivery.cancelled() and (error := delivery.exception()) is not None:
            self._backoff.failed(lease.started, now)
            log.error("push_broke_off", subscription=self._feed.subscription.name, exc_info=error)
        self._feed.touch()

    def _next(self, now: float) -> tuple[Entry | None, float | None]:
        """The message to push now, or how long to wait at most; None waits for a change."""
        if len(self._deliveries) >= self._window.size:
            return None, None
        pause = max(self._backoff.until, self._ungranted_until) - now
        if pause > 0:
            return None, pause
        backlog = self._feed.backlog
        while (entry := backlog.next_ready(now)) is not None:
            if not self._may_push():
                self._ungranted_until = now + GRANT_CHECK_SECONDS
                return None, GRANT_CHECK_SECONDS
            held = self._tools.faults.next(Step.PUSH, self._feed.subscription.name, effects=_HOLDING)
            if held is None:
                return entry, None
            backlog.defer(entry, now + held.seconds)
        moment = backlog.next_moment()
        return None, None if moment is None else moment - now

    def _may_push(self) -> bool:
        push = self._feed.subscription.push
        if push is None or push.account is None:
            return True
        step = f"push of {short_name(self._feed.subscription.name)} as {push.account}"
        return self._tools.grants.allow(self._tools.agent, MINT, Target(Kind.ACCOUNT, push.account), step=step)

    async def _deliver(self, lease: Lease) -> None:
        subscription = self._feed.subscription
        if subscription.push is not None and await self._push(subscription, subscription.push, lease):
            self._window.acknowledged()
            self._backoff.succeeded()
            self._tools.notes.note(*self._tools.broker.acknowledge(self._feed, [lease]))
            return
        self._window.failed()
        if subscription.retry is None:
            self._backoff.failed(lease.started, self._clock.monotonic())
        self._tools.broker.reject(self._feed, lease)

    async def _push(self, subscription: Subscription, push: PushConfig, lease: Lease) -> bool:
        """Whether the message was acknowledged within the ack deadline."""
        fault = self._tools.faults.next(Step.PUSH, subscription.name, effects=_SENDING)
        seconds = subscription.ack_deadline.total_seconds()
        try:
            async with self._clock.timeout(seconds):
                status = await self._send(push, envelope(subscription, lease.message, lease.attempt), seconds, fault)
            if status in ACKNOWLEDGING:
                return True
            reason = f"status {status}"
        except TimeoutError:
            reason = f"no answer within the ack deadline, {seconds:g} s"
        except PushFailed as error:
            reason = str(error)
        log.info(
            "push_not_acknowledged",
            subscription=subscription.name,
            message_id=lease.message.id,
            attempt=lease.attempt,
            reason=reason,
        )
        return False

    async def _send(self, push: PushConfig, body: bytes, seconds: float, fault: Fault | None) -> int:
        effect = fault.effect if fault is not None else None
        if fault is not None and effect is Effect.ERROR:
            return fault.status or _UNAVAILABLE
        if fault is not None and effect is Effect.DELAY:
            await self._clock.sleep(fault.seconds)
        token = self._tools.id_token(push.account, push.audience) if push.account is not None else None

        async def post() -> int:
            return await self._tools.post(push.endpoint, token, body, seconds)

        if effect is Effect.DUPLICATE:
            first, _ = await asyncio.gather(post(), post(), return_exceptions=True)
            if isinstance(first, BaseException):
                raise first
            return first
        status = await post()
        if effect is Effect.DROP_RESPONSE:
            raise PushFailed(f"{push.endpoint} answered {status}, and the answer was dropped as ordered")
        return status
