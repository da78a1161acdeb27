"""Timeouts that follow from those that are given: each is given once, and the rest satisfies the rules."""

from __future__ import annotations

from typing import Final, NamedTuple

from runtime.contract import limits
from runtime.contract.alignment import Alignment
from runtime.contract.timeout_rules.broker import BROKER_ATTEMPTS_MAX, attempts_needed, parked_deliveries

DAY: Final = 86400
BROKER_ATTEMPTS: Final = 20
"""Broker attempts where fewer would do: with the default pauses about 2.3 hours of outage."""
STALE_HEARTBEATS: Final = 6
"""Lost heartbeats that make a claim stale, where there is room for them."""
STALE_AFTER: Final = 180
"""Least stale age, where there is room: each shorter park costs the broker's attempts."""


class GivenTimeouts(NamedTuple):
    """What a stack says of one worker; seconds and counts.

    Attributes:
        request: request timeout of its service, 60 to 3600.
        run: longest a run may take, 1 to `request` - 60.
        heartbeat: how often a claim is renewed, 5 to 600 (to 190 where `request` is above 600).
        ceiling: most attempts that work on one message.
        min_backoff: shortest pause before a redelivery.
        max_backoff: longest pause before a redelivery.
    """

    request: int = 600
    run: int = 540
    heartbeat: int = 30
    ceiling: int = 3
    min_backoff: int = 10
    max_backoff: int = 600


def derive(given: GivenTimeouts) -> Alignment:
    """Facts with everything derived, environment and resources alike.

    With values outside the ranges of GivenTimeouts, or a ceiling that asks for over 100 broker attempts, the facts
    are derived as well, and `timeouts.check` says what does not hold.
    """
    ack = derive_ack_deadline(given.request)
    process = derive_process_timeout(given.run, given.request)
    stale_after = derive_stale_after(given.heartbeat, given.request, ack)
    park = min(stale_after, process)
    broker = derive_broker_attempts(given.ceiling, given.request, ack, park, given.min_backoff)
    retention = derive_message_retention(broker, ack, given.max_backoff)
    return Alignment(
        request_env=given.request,
        service_timeout=given.request,
        process=process,
        run=given.run,
        ack_env=ack,
        ack_subscription=ack,
        heartbeat=given.heartbeat,
        stale_after=stale_after,
        run_lease=derive_run_lease(stale_after, given.heartbeat),
        claim_retention=derive_claim_retention(process, retention),
        message_retention=retention,
        ceiling=given.ceiling,
        broker_env=broker,
        broker_attempts=broker,
        min_backoff=given.min_backoff,
        max_backoff=given.max_backoff,
        job_token_life=derive_job_token_life(retention, given.request),
        max_queue_age=derive_max_queue_age(retention),
    )


def derive_ack_deadline(request: int) -> int:
    """As long as the request may take, as far as the broker can wait (T06)."""
    return min(request, limits.ACK_DEADLINE_MAX)


def derive_process_timeout(run: int, request: int) -> int:
    """Room for parking and the run, ending before the request does (T02, T03)."""
    return min(run + 600, request - limits.SETTLE_BUDGET)


def derive_stale_after(heartbeat: int, request: int, ack: int) -> int:
    """Six heartbeats and three minutes; less where a parked delivery must answer before the broker hangs up (T12)."""
    stale = max(STALE_HEARTBEATS * heartbeat, STALE_AFTER)
    return min(stale, ack - limits.SETTLE_BUDGET) if request > ack else stale


def derive_run_lease(stale_after: int, heartbeat: int) -> int:
    """A heartbeat shorter than the stale age (T07)."""
    return stale_after - heartbeat


def derive_broker_attempts(ceiling: int, request: int, ack: int, park: int, min_backoff: int) -> int:
    """Enough for every allowed attempt to work, and no less than the default (T09); never above the broker's 100."""
    needed = attempts_needed(ceiling, parked_deliveries(request, ack, park, min_backoff))
    return min(max(BROKER_ATTEMPTS, needed), BROKER_ATTEMPTS_MAX)


def derive_message_retention(broker_attempts: int, ack: int, max_backoff: int) -> int:
    """A day, or as long as the broker may try (T10)."""
    return max(DAY, broker_attempts * (ack + max_backoff))


def derive_claim_retention(process: int, message_retention: int) -> int:
    """As long as the message, and longer than two deliveries (T08)."""
    return max(message_retention, 2 * process + 1)


def derive_job_token_life(message_retention: int, request: int) -> int:
    """Until the last delivery of the message can have ended (T15)."""
    return message_retention + request + 300


def derive_max_queue_age(message_retention: int) -> int:
    """As long as the message; an older run has no message that could work it (T10)."""
    return message_retention
