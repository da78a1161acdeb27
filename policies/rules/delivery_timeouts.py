"""Timeouts inside one delivery: its request, its deadline, its claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..rule import Context, Rule, Scope, rule
from ..service import Service
from ..subscription import Delivery

SETTLE_BUDGET: Final = 30
"""Seconds that a delivery, or a run, needs at its end to record what became of it and to answer."""
LEASE_MIN: Final = 15
"""Shortest lease of a run, seconds: three renewals that each may need one retry."""
_REQUEST_VARIABLES: Final = ("GCP_QUEUE_REQUEST_TIMEOUT_SECS", "API_REQUEST_TIMEOUT_SECS")


@rule(
    "T01",
    "A service is told the request timeout that it has",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    breaks="the service plans with time that the platform does not give it, and is cut off in the middle",
    fix="Set the variable and the template's timeout from one value; a template that names none has 300 s",
)
def t01(service: Service, _: Context) -> Iterator[str]:
    """The variable, where there is one, is the template's timeout."""
    for name in _REQUEST_VARIABLES:
        told = service.whole(name)
        if told is not None and told != service.timeout:
            yield f"{name} is {told}, but the template's timeout is {service.timeout} s"


@rule(
    "T02",
    "A delivery ends 30 s before its request is cut",
    over=lambda facts: facts.deliveries,
    breaks="the work is done, but not recorded, and is done again",
    fix="Lower GCP_QUEUE_PROCESS_TIMEOUT_SECS, or raise the template's timeout",
)
def t02(delivery: Delivery, _: Context) -> Iterator[str]:
    """Process timeout plus settle budget fit into the request."""
    process = delivery.process
    if process is not None and process + SETTLE_BUDGET > delivery.request:
        yield f"GCP_QUEUE_PROCESS_TIMEOUT_SECS is {process}, but the template's timeout is {delivery.request} s"


@rule(
    "T03",
    "A run ends 30 s before its delivery does",
    over=lambda facts: facts.deliveries,
    breaks="a run that uses all of its time is cut off before its result is recorded",
    fix="Lower the run timeout (EXECUTOR_TIMEOUT_SECS or COMPILER_TIMEOUT_SECS), or raise the process timeout",
)
def t03(delivery: Delivery, _: Context) -> Iterator[str]:
    """Run timeout plus settle budget fit into the process timeout."""
    run, process = delivery.run, delivery.process
    if run is not None and process is not None and run + SETTLE_BUDGET > process:
        yield f"the run timeout is {run}, but GCP_QUEUE_PROCESS_TIMEOUT_SECS is {process}"


@rule(
    "T07",
    "A claim survives two lost heartbeats, and a run's lease lapses before its claim does",
    over=lambda facts: facts.deliveries,
    breaks="a live delivery loses its claim and its work is done twice, or the next one finds the run still taken",
    fix=(
        "Set GCP_QUEUE_CLAIM_STALE_AFTER_SECS to three heartbeats or more, and API_RUN_LEASE_SECS to it less one "
        "heartbeat"
    ),
)
def t07(delivery: Delivery, context: Context) -> Iterator[str]:
    """Stale age, heartbeat and lease fit."""
    stale_after, heartbeat = delivery.stale_after, delivery.service.whole("GCP_QUEUE_CLAIM_HEARTBEAT_SECS")
    if stale_after is None or heartbeat is None:
        return
    if stale_after < max(3 * heartbeat, heartbeat + LEASE_MIN):
        yield f"GCP_QUEUE_CLAIM_STALE_AFTER_SECS is {stale_after} with a heartbeat of {heartbeat} s"
        return
    for api in context.facts.publishers(delivery):
        lease = api.whole("API_RUN_LEASE_SECS")
        if lease is not None and lease != stale_after - heartbeat:
            yield f"API_RUN_LEASE_SECS of {api.name} is {lease}, but must be {stale_after - heartbeat}"


@rule(
    "T08",
    "A claim outlives every delivery of its message",
    over=lambda facts: facts.deliveries,
    breaks="a late delivery finds no claim and works a finished message again",
    fix=(
        "Set GCP_QUEUE_CLAIM_RETENTION_SECS to more than two process timeouts and to the subscription's message "
        "retention or more; a subscription that names none keeps messages for 7 days"
    ),
)
def t08(delivery: Delivery, _: Context) -> Iterator[str]:
    """Claim retention against process timeout and message retention."""
    kept, process = delivery.service.whole("GCP_QUEUE_CLAIM_RETENTION_SECS"), delivery.process
    if kept is None:
        return
    if process is not None and kept <= 2 * process:
        yield f"GCP_QUEUE_CLAIM_RETENTION_SECS is {kept}, not more than two process timeouts of {process} s"
    if kept < delivery.subscription.retention:
        yield f"GCP_QUEUE_CLAIM_RETENTION_SECS is {kept}, but messages are kept {delivery.subscription.retention} s"


RULES: Final[tuple[Rule, ...]] = (t01, t02, t03, t07, t08)
