"""Rules between a worker and the broker: how long it waits, how often it tries, where it pushes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from runtime.contract import limits
from runtime.contract.alignment import Alignment, Finding, finding

BROKER_ATTEMPTS_MAX: Final = 100
"""Pub/Sub: largest max_delivery_attempts."""
ACK_DEADLINE_MIN: Final = 10
"""Pub/Sub: shortest ack deadline, seconds."""


def parked_deliveries(request: int, ack: int, park: int, min_backoff: int) -> int:
    """Redeliveries that one working delivery can meet and park, because the broker hangs up before it answers."""
    beyond = max(0, request - ack)
    return -(-beyond // max(1, park + min_backoff))


def attempts_needed(ceiling: int, parked: int) -> int:
    """Broker attempts with which `ceiling` attempts can work and be settled, whatever is parked meanwhile."""
    return ceiling * (1 + parked) + ceiling - 1


def t05(facts: Alignment) -> Iterator[Finding]:
    """What the environment says of the ack deadline is what the subscription has."""
    for name in ("ack_subscription", "ack_env"):
        value = facts.value(name)
        if isinstance(value, int) and not ACK_DEADLINE_MIN <= value <= limits.ACK_DEADLINE_MAX:
            rule = f"an ack deadline must be {ACK_DEADLINE_MIN} to {limits.ACK_DEADLINE_MAX} s"
            yield finding("T05", facts, (name,), rule, min(max(value, ACK_DEADLINE_MIN), limits.ACK_DEADLINE_MAX))
            return
    if facts.ack_env is not None and facts.ack_subscription is not None and facts.ack_env != facts.ack_subscription:
        rule = "both must be the same number of seconds"
        yield finding("T05", facts, ("ack_env", "ack_subscription"), rule, facts.ack_subscription)


def t06(facts: Alignment) -> Iterator[Finding]:
    """The broker waits for as long as a request can answer, or for as long as it can."""
    if facts.ack is None or facts.request is None:
        return
    least = min(facts.request, limits.ACK_DEADLINE_MAX)
    if facts.ack < least:
        rule = f"the broker must wait for the answer: no less than the request timeout, or {limits.ACK_DEADLINE_MAX} s"
        yield finding("T06", facts, (facts.ack_name, facts.request_name), rule, least)


def t09(facts: Alignment) -> Iterator[Finding]:
    """The broker tries often enough that every allowed attempt can work, and both sides know how often."""
    for name in ("broker_attempts", "broker_env"):
        value = facts.value(name)
        if isinstance(value, int) and not limits.BROKER_ATTEMPTS_MIN <= value <= BROKER_ATTEMPTS_MAX:
            if name == "broker_env" and value == 0:
                continue
            rule = f"broker attempts must be {limits.BROKER_ATTEMPTS_MIN} to {BROKER_ATTEMPTS_MAX}"
            passing = min(max(value, limits.BROKER_ATTEMPTS_MIN), BROKER_ATTEMPTS_MAX)
            yield finding("T09", facts, (name,), rule, passing)
            return
    yield from _known_to_both(facts)
    yield from _often_enough(facts)


def _known_to_both(facts: Alignment) -> Iterator[Finding]:
    if facts.broker_attempts is None or facts.broker_env is None or facts.broker_attempts == facts.broker_env:
        return
    if facts.broker_env:
        rule = "both must be the same number"
        yield finding("T09", facts, ("broker_env", "broker_attempts"), rule, facts.broker_attempts)
    elif facts.ceiling is not None and facts.broker_attempts > max(facts.ceiling, limits.BROKER_ATTEMPTS_MIN):
        rule = "a worker that is not told the broker's number acknowledges a dead letter before the broker forwards it"
        yield finding("T09", facts, ("broker_env", "broker_attempts", "ceiling"), rule, facts.broker_attempts)


def _often_enough(facts: Alignment) -> Iterator[Finding]:
    name = "broker_env" if facts.broker_attempts is None else "broker_attempts"
    broker = facts.broker_env if facts.broker_attempts is None else facts.broker_attempts
    if not broker or facts.ceiling is None or facts.request is None or facts.ack is None:
        return
    parked = 0
    if facts.request > facts.ack:
        if facts.park is None or facts.min_backoff is None:
            return
        parked = parked_deliveries(facts.request, facts.ack, facts.park, facts.min_backoff)
    needed = attempts_needed(facts.ceiling, parked)
    if broker >= needed:
        return
    rule = f"{needed} broker attempts are needed, so that {facts.ceiling} can work while redeliveries of each park"
    names = (name, "ceiling", facts.request_name, facts.ack_name)
    fewer = (BROKER_ATTEMPTS_MAX + 1) // (parked + 2)
    if needed <= BROKER_ATTEMPTS_MAX:
        yield finding("T09", facts, names, rule, needed)
    elif fewer >= 1:
        yield finding("T09", facts, ("ceiling", name, facts.request_name, facts.ack_name), rule, fewer)
    else:
        yield finding("T09", facts, (facts.request_name, facts.ack_name, name, "ceiling"), rule, facts.ack)


def t10(facts: Alignment) -> Iterator[Finding]:
    """A message, and the run that it carries, live for as long as the broker may try."""
    broker = facts.broker_attempts if facts.broker_attempts is not None else facts.broker_env or None
    if broker is None or facts.ack is None or facts.max_backoff is None:
        return
    bound = broker * (facts.ack + facts.max_backoff)
    for name in ("message_retention", "max_queue_age"):
        value = facts.value(name)
        if isinstance(value, int) and value < bound:
            rule = f"{broker} attempts of ack deadline and longest pause take up to {bound} s"
            yield finding("T10", facts, (name, facts.ack_name, "max_backoff"), rule, bound)


def t11(facts: Alignment) -> Iterator[Finding]:
    """The broker pushes to the service, with a token for it, and the worker expects that token."""
    endpoint = None if facts.push_endpoint is None else facts.push_endpoint.removesuffix("/")
    address = facts.service_address
    if endpoint is not None and address is not None and endpoint != address:
        rule = "messages must be pushed to the service's own address, at path /"
        yield finding("T11", facts, ("push_endpoint", "service_address"), rule, address)
    yield from _audience(facts, address or _origin(endpoint))
    if facts.audience_env and facts.push_audience is not None and facts.audience_env != facts.push_audience:
        rule = "the worker must expect the audience that the broker asks for"
        yield finding("T11", facts, ("audience_env", "push_audience"), rule, facts.push_audience)


def _audience(facts: Alignment, address: str | None) -> Iterator[Finding]:
    if facts.push_audience is None or address is None or facts.push_audience == address:
        return
    if facts.audience_env == "":
        rule = "a worker without PUBSUB_PUSH_AUDIENCE expects its own address"
        yield finding("T11", facts, ("push_audience", "audience_env"), rule, address)
    elif facts.custom_audiences is not None and facts.push_audience not in facts.custom_audiences:
        rule = "an audience other than the service's address must be one of its custom audiences"
        yield finding("T11", facts, ("push_audience", "custom_audiences"), rule, address)


def _origin(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def t12(facts: Alignment) -> Iterator[Finding]:
    """Where the broker hangs up before the answer, the work goes on and its redelivery finds room to wait."""
    if facts.request is None or facts.ack is None or facts.request <= facts.ack:
        return
    names = (facts.request_name, facts.ack_name)
    if facts.max_instances is not None and facts.concurrency is not None:
        rule = "a redelivery parks while the first delivery works: there must be room for two requests"
        if facts.max_instances * facts.concurrency < 2:
            yield finding("T12", facts, ("max_instances", "concurrency", *names), rule, 2)
    if facts.cpu_idle:
        rule = "the platform may take the CPU away once the broker hangs up"
        yield finding("T12", facts, ("cpu_idle", *names), rule, passing=False)
    latest = facts.ack - limits.SETTLE_BUDGET
    if facts.park is not None and facts.park > latest:
        rule = f"a parked delivery must answer {limits.SETTLE_BUDGET} s before the broker hangs up"
        if latest >= 1:
            yield finding("T12", facts, ("stale_after", "process", *names), rule, latest)
        else:
            passing = facts.park + limits.SETTLE_BUDGET
            yield finding("T12", facts, (facts.ack_name, "stale_after", "process", facts.request_name), rule, passing)


def t15(facts: Alignment) -> Iterator[Finding]:
    """A job's token is valid for as long as its message can be delivered and worked."""
    if facts.job_token_life is None or facts.message_retention is None or facts.request is None:
        return
    least = facts.message_retention + facts.request + 300
    if facts.job_token_life < least:
        rule = "a job's token must outlive its message by the request timeout and 300 s"
        yield finding("T15", facts, ("job_token_life", "message_retention", facts.request_name), rule, least)
