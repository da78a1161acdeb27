"""Rules inside one delivery: its request, its deadline, its claim."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.contract import limits
from runtime.contract.alignment import Alignment, Finding, finding

LEASE_MIN = 15
"""Shortest lease of a run, seconds: three renewals that each may need one retry."""


def t01(facts: Alignment) -> Iterator[Finding]:
    """What the environment says of the request timeout is what the platform does."""
    for env, service in (("request_env", "service_timeout"), ("api_request_env", "api_timeout")):
        told, real = facts.value(env), facts.value(service)
        if told is not None and real is not None and told != real:
            yield finding("T01", facts, (env, service), "both must be the same number of seconds", real)


def t02(facts: Alignment) -> Iterator[Finding]:
    """A delivery ends early enough before its request is cut to settle and answer."""
    if facts.process is None or facts.request is None:
        return
    latest = facts.request - limits.SETTLE_BUDGET
    if facts.process > latest:
        rule = f"a delivery must end {limits.SETTLE_BUDGET} s before its request is cut"
        if latest >= 1:
            yield finding("T02", facts, ("process", facts.request_name), rule, latest)
        else:
            passing = facts.process + limits.SETTLE_BUDGET
            yield finding("T02", facts, (facts.request_name, "process"), rule, passing)


def t03(facts: Alignment) -> Iterator[Finding]:
    """A run that uses all of its time can still be settled inside its delivery."""
    if facts.run is None or facts.process is None:
        return
    latest = facts.process - limits.SETTLE_BUDGET
    if facts.run > latest:
        rule = f"a run must end {limits.SETTLE_BUDGET} s before its delivery does"
        if latest >= 1:
            yield finding("T03", facts, ("run", "process"), rule, latest)
        else:
            yield finding("T03", facts, ("process", "run"), rule, facts.run + limits.SETTLE_BUDGET)


def t07(facts: Alignment) -> Iterator[Finding]:
    """A claim survives two lost heartbeats, and a run's lease lapses before its claim may be taken over."""
    if facts.stale_after is None or facts.heartbeat is None:
        return
    shortest = max(3 * facts.heartbeat, facts.heartbeat + LEASE_MIN)
    if facts.stale_after < shortest:
        rule = f"a claim must be stale after no less than 3 heartbeats, and {LEASE_MIN} s after the first is missed"
        yield finding("T07", facts, ("stale_after", "heartbeat"), rule, shortest)
        return
    lease = facts.stale_after - facts.heartbeat
    if facts.run_lease is not None and facts.run_lease != lease:
        rule = "a run's lease must last the stale age less one heartbeat, so that who takes the claim finds it free"
        yield finding("T07", facts, ("run_lease", "stale_after", "heartbeat"), rule, lease)


def t08(facts: Alignment) -> Iterator[Finding]:
    """A claim outlives every delivery of its message."""
    if facts.claim_retention is None:
        return
    if facts.process is not None and facts.claim_retention <= 2 * facts.process:
        rule = "a claim must be kept for longer than two deliveries take"
        yield finding("T08", facts, ("claim_retention", "process"), rule, 2 * facts.process + 1)
    if facts.message_retention is not None and facts.claim_retention < facts.message_retention:
        rule = "a claim must be kept as long as its message, or a late delivery works again"
        yield finding("T08", facts, ("claim_retention", "message_retention"), rule, facts.message_retention)
