"""Scheduler jobs as the program declares them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog

from runtime.contract.errors import HoldfastError
from sandbox.scheduler.cron import Schedule, parse_schedule
from sandbox.world import SCHEDULER_JOB, World

_DURATION: Final = re.compile(r"(\d+(?:\.\d{1,9})?)s")
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"})

log = structlog.get_logger()


class UnreadableJob(HoldfastError):
    """A declared job that this service cannot do as asked."""

    code = "unreadable_job"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """What a job calls.

    Attributes:
        uri: https address.
        method: HTTP method; Google's default is POST.
        headers: sent as declared.
        body: may be empty.
        account: e-mail of the account whose token is sent; None sends none.
        audience: audience of that token; the address where the program names none.
    """

    uri: str
    method: str
    headers: Mapping[str, str]
    body: bytes
    account: str | None
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """How often a failed run is tried again.

    Attributes:
        count: further tries; Google's default is 0.
        longest: no further try begins later than this after the first; 0 means no limit.
        minimum, maximum: of the delay between two tries; Google's defaults are 5 s and 1 h.
        doublings: how often the delay doubles before it grows evenly; Google's default is 5.
    """

    count: int = 0
    longest: timedelta = timedelta(0)
    minimum: timedelta = timedelta(seconds=5)
    maximum: timedelta = timedelta(hours=1)
    doublings: int = 5

    def delay(self, failures: int) -> float:
        """Seconds before the next try after so many failed ones, 1 or more."""
        steps = min(failures - 1, self.doublings)
        delay: timedelta = self.minimum * 2**steps * max(1, failures - self.doublings)
        return min(delay, self.maximum).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One declared job.

    Attributes:
        name: last part of its name.
        schedule: when it is due.
        paused: True is never due, but can be run by hand.
        deadline: how long one try may take; Google's default is 180 s.
        retry: see RetryConfig.
        target: see HttpTarget.
    """

    name: str
    schedule: Schedule
    paused: bool
    deadline: timedelta
    retry: RetryConfig
    target: HttpTarget


def read_job(name: str, inputs: Mapping[str, Any]) -> Job:
    """A job from the inputs of a `gcp:cloudscheduler/job:Job`; what is absent has Google's default.

    Raises:
        UnreadableJob: names job and field.
        InvalidSchedule
    """

    def duration(values: Mapping[str, Any], field: str, default: str) -> timedelta:
        value = str(values.get(field) or default)
        found = _DURATION.fullmatch(value)
        if found is None:
            raise UnreadableJob(f"job {name}: {field} is {value!r}; write seconds, as in '180s'")
        return timedelta(seconds=float(found.group(1)))

    retry = inputs.get("retryConfig") or {}
    doublings = retry.get("maxDoublings")
    return Job(
        name=name,
        schedule=parse_schedule(str(inputs.get("schedule") or ""), str(inputs.get("timeZone") or "Etc/UTC")),
        paused=bool(inputs.get("paused")),
        deadline=duration(inputs, "attemptDeadline", "180s"),
        retry=RetryConfig(
            count=int(retry.get("retryCount") or 0),
            longest=duration(retry, "maxRetryDuration", "0s"),
            minimum=duration(retry, "minBackoffDuration", "5s"),
            maximum=duration(retry, "maxBackoffDuration", "3600s"),
            doublings=5 if doublings is None else int(doublings),
        ),
        target=_read_target(name, inputs.get("httpTarget")),
    )


def _read_target(name: str, target: Mapping[str, Any] | None) -> HttpTarget:
    if not target or target.get("oauthToken"):
        raise UnreadableJob(f"job {name}: only an httpTarget with or without oidcToken is available in the sandbox")
    uri, method = str(target["uri"]), str(target.get("httpMethod") or "POST").upper()
    if method not in _METHODS:
        raise UnreadableJob(f"job {name}: httpMethod is {method!r}; write one of {', '.join(sorted(_METHODS))}")
    try:
        body = base64.b64decode(target.get("body") or "", validate=True)
    except binascii.Error as error:
        raise UnreadableJob(f"job {name}: httpTarget.body is not base64; encode it") from error
    token = target.get("oidcToken") or {}
    return HttpTarget(
        uri=uri,
        method=method,
        headers=dict(target.get("headers") or {}),
        body=body,
        account=token.get("serviceAccountEmail") or None,
        audience=str(token.get("audience") or uri),
    )


def read_jobs(world: World) -> dict[str, Job]:
    """Every declared job by name; one that cannot be read is logged as an error and left out."""
    jobs, unreadable = {}, {}
    for resource in world.of_type(SCHEDULER_JOB):
        try:
            jobs[resource.name] = read_job(resource.name, resource.inputs)
        except HoldfastError as error:
            unreadable[resource.name] = error.line()
    for name, reason in unreadable.items():
        log.error("job_unreadable", job=name, reason=reason)
    return jobs
