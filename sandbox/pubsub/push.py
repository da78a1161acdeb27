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
        self._in_flight = 0

    async def run(self) -> None:
        """Pushes until it is cancelled, or the subscription is not one for push any more."""
        async with asyncio.TaskGroup() as deliveries:
            while self._feed.subscription.push is not None:
                self._feed.changed.clear()
                now = self._clock.monotonic()
                entry, wait = self._next(now)
                if entry is not None:
                    lease = self._tools.broker.lease(self._feed, entry, None)
                    self._in_flight += 1
                    deliveries.create_task(self._deliver(lease))
                    continue
                try:
                    async with self._clock.timeout(wait):
                        await self._feed.changed.wait()
                except TimeoutError:
                    continue

    def _next(self, now: float) -> tuple[Entry | None, float | None]:
        """The message to push now, or how long to wait at most; None waits for a change."""
        if self._in_flight >= self._window.size:
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
        subscription, started = self._feed.subscription, self._clock.monotonic()
        try:
            acknowledged = subscription.push is not None and await self._push(subscription, subscription.push, lease)
        finally:
            self._in_flight -= 1
            self._feed.changed.set()
        if acknowledged:
            self._window.acknowledged()
            self._backoff.succeeded()
            self._tools.notes.note(*self._tools.broker.acknowledge(self._feed, [lease]))
            return
        self._window.failed()
        if subscription.retry is None:
            self._backoff.failed(started, self._clock.monotonic())
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
