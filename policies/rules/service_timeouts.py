"""Timeouts of services and of those who call them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from ..facts import Facts
from ..resource import NOTIFICATION, SCHEDULER_JOB, SUBSCRIPTION, Resource
from ..rule import Context, Rule, Scope, Severity, rule
from ..service import Service
from ..workload import Role
from .delivery_timeouts import SETTLE_BUDGET

REQUEST_MAX: Final = 3600
"""Cloud Run: longest request timeout, seconds."""
STARTUP_MAX: Final = 240
"""Cloud Run: longest that the startup probe may take, seconds."""
STARTUP_PERIOD_DEFAULT: Final = 10
STARTUP_FAILURES_DEFAULT: Final = 3
"""Cloud Run: period in seconds, and failures, of a startup probe that names none."""
ATTEMPT_DEADLINE_DEFAULT: Final = 180
"""Cloud Scheduler: attempt deadline of a job that names none, seconds."""

_SIGNED: Final = re.compile(
    r"https?://[^\s\"'<>]*[?&](?:x-goog-signature|x-amz-signature|signature|sig)=", re.IGNORECASE | re.ASCII
)


def _executors(facts: Facts) -> list[Service]:
    return [service for service in facts.services if service.role is Role.EXECUTOR]


@rule(
    "T04",
    "A synchronous run ends 30 s before its request is cut",
    over=_executors,
    scope=Scope.RESOURCE,
    breaks="the run is cut off before it can say how it ended",
    fix="Set EXECUTOR_TIMEOUT_SECS to 1 to 3570, and the template's timeout to 30 s more",
)
def t04(executor: Service, _: Context) -> Iterator[str]:
    """Run timeout of the executor against its request timeout."""
    run = executor.whole("EXECUTOR_TIMEOUT_SECS")
    if run is None:
        return
    if not 1 <= run <= REQUEST_MAX - SETTLE_BUDGET:
        yield f"EXECUTOR_TIMEOUT_SECS is {run}, but must be 1 to {REQUEST_MAX - SETTLE_BUDGET}"
    elif run + SETTLE_BUDGET > executor.timeout:
        yield f"EXECUTOR_TIMEOUT_SECS is {run}, but the template's timeout is {executor.timeout} s"


@rule(
    "T13",
    "An instance starts inside the platform's window",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    breaks="the platform refuses the service",
    fix="Keep initialDelaySeconds + periodSeconds x failureThreshold at 240 or less",
)
def t13(service: Service, _: Context) -> Iterator[str]:
    """The startup probe's longest."""
    probe = service.main.section("startupProbe")
    if probe is None:
        return
    period = probe.number("periodSeconds") or STARTUP_PERIOD_DEFAULT
    failures = probe.number("failureThreshold") or STARTUP_FAILURES_DEFAULT
    window = (probe.number("initialDelaySeconds") or 0) + period * failures
    if window > STARTUP_MAX:
        yield f"the startup probe may take {window} s"


@rule(
    "T14",
    "A scheduler job waits no longer than the service that it calls may answer",
    over=lambda facts: facts.of(SCHEDULER_JOB),
    severity=Severity.MEDIUM,
    breaks="the platform cuts the request while the scheduler still waits, and nobody sees why",
    fix="Set attemptDeadline to the service's request timeout or less; absent means 180 s",
)
def t14(job: Resource, context: Context) -> Iterator[str]:
    """Attempt deadline against request timeout."""
    given = job.properties.seconds("attemptDeadline")
    deadline = ATTEMPT_DEADLINE_DEFAULT if given is None else given
    for called, service in context.facts.calls:
        if called.urn == job.urn and deadline > service.timeout:
            yield f"attemptDeadline is {deadline} s, but the service may answer for {service.timeout} s"


@rule(
    "T16",
    "No signed URL travels in a message",
    over=lambda facts: facts.of(SCHEDULER_JOB, NOTIFICATION, SUBSCRIPTION),
    scope=Scope.RESOURCE,
    breaks="the URL expires in the queue, and whoever reads the queue can use it until then",
    fix="Leave it out; a worker fetches what it needs with its own identity or its job's token",
)
def t16(resource: Resource, _: Context) -> Iterator[str]:
    """Bodies, attributes and addresses that end up in messages."""
    for place, text in resource.properties.every_text():
        if _SIGNED.search(text) or _SIGNED.search(_decoded(text)):
            yield f"{place} holds a signed URL"


def _decoded(text: str) -> str:
    """What a text in base64 says, "" where it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


@rule(
    "T17",
    "An API waits for its executor for as long as that may answer",
    over=lambda facts: [service for service in facts.services if "EXECUTOR_URL" in service.known_names],
    breaks="a caller is cut off although the run goes on and would have answered",
    fix="Set the API's request timeout to the executor's or more",
)
def t17(api: Service, context: Context) -> Iterator[str]:
    """Request timeout of both, where the API has an executor that the program declares."""
    url = api.variable("EXECUTOR_URL")
    executor = context.facts.service_at(url) if url else None
    if executor is not None and api.timeout < executor.timeout:
        yield f"the API's timeout is {api.timeout} s, but its executor may answer for {executor.timeout} s"


RULES: Final[tuple[Rule, ...]] = (t04, t13, t14, t16, t17)
