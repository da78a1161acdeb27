"""The sections of a stack file: how the workers run, how the API runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict

from infra.fields import Count, Explanation, Seconds, explained, ranged, shaped
from runtime.contract import limits
from runtime.contract.settings.words import PushAuth

_CALLER: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CPU: Final = re.compile(r"[1-8]", re.ASCII)
_MEMORY: Final = re.compile(r"[1-9][0-9]{0,4}[MG]i", re.ASCII)
_INSTANCES: Final = "the region's quota is shared, and an unbounded service can spend it and the budget"
_CPU_RULE: Final = Explanation("must be 1 to 8 whole CPUs", "the platform would refuse the service", '"1"')
_MEMORY_RULE: Final = Explanation("must be an amount like 512Mi or 2Gi", "the platform would refuse the service", "1Gi")
_AUTH: Final = Explanation(
    "must be platform or in_process",
    "the invoker check and the worker would not agree on who checks a push token",
    "platform",
)


Cpu = Annotated[str, shaped(_CPU)]
Memory = Annotated[str, shaped(_MEMORY)]


class Section(BaseModel):
    """Frozen; a key that is not described is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerPlan(Section):
    """`holdfast:worker`: how each push worker runs."""

    request_timeout: Seconds = ranged(
        "request_timeout_seconds", 60, limits.REQUEST_TIMEOUT_MAX, 600, "the platform ends a request by then"
    )
    """Request timeout of the service; process timeout and ack deadline follow from it."""
    run_timeout: Seconds = ranged(
        "run_timeout_seconds", 1, limits.REQUEST_TIMEOUT_MAX - limits.SETTLE_BUDGET, 540, "a run would be cut off"
    )
    """Longest a run may take inside one delivery."""
    heartbeat: Seconds = ranged("heartbeat_seconds", 5, 600, 30, "a live claim would look dead, or a dead one alive")
    """How often a claim is renewed."""
    stale_after: Seconds | None = ranged(
        "stale_after_seconds", 30, 3600, None, "a dead delivery would be taken over too early or late", passing=180
    )
    """Age of the last heartbeat at which a claim may be taken over; absent: derived."""
    max_attempts: Count = ranged("max_attempts", 1, 100, 3, "a message would never be worked, or never given up")
    """Most attempts that work on one message."""
    minimum_backoff: Seconds = ranged("minimum_backoff_seconds", 0, 600, 10, "Pub/Sub would refuse the subscription")
    """Shortest pause before a redelivery."""
    maximum_backoff: Seconds = ranged("maximum_backoff_seconds", 0, 600, 600, "Pub/Sub would refuse the subscription")
    """Longest pause before a redelivery."""
    message_retention: Seconds | None = ranged(
        "message_retention_seconds",
        600,
        604_800,
        None,
        "messages would be lost, or outlive their claims",
        passing=86_400,
    )
    """How long Pub/Sub keeps a message; absent: derived, a day or longer."""
    claim_retention: Seconds | None = ranged(
        "claim_retention_seconds", 3600, 604_800, None, "a late delivery would work a message again", passing=86_400
    )
    """How long a claim is kept after its last write; absent: derived, as long as the message."""
    concurrency: Count = ranged("concurrency", 1, 1000, 1, "the platform would refuse the service", unit="requests")
    """Requests that one instance takes at once; a parked redelivery is one of them."""
    max_instances: Count = ranged("max_instances", 1, 1000, 10, _INSTANCES)
    """Most instances of the service."""
    min_instances: Count = ranged("min_instances", 0, 1000, 0, _INSTANCES)
    """Instances that are always there; 0 scales to zero."""
    key_grace: Seconds = ranged(
        "key_grace_seconds", 0, 21_600, 0, "revoked signing keys would be accepted for too long"
    )
    """How long known signing keys are used beyond their hour while new ones cannot be fetched."""
    push_auth: PushAuth = explained(_AUTH, PushAuth.PLATFORM)
    """Who checks push tokens; the service's invoker check follows from it."""
    cpu: Cpu = explained(_CPU_RULE, "1")
    """CPUs of one instance."""
    memory: Memory = explained(_MEMORY_RULE, "1Gi")
    """Memory limit of one instance, the processes of its engines included."""


class ApiPlan(Section):
    """`holdfast:api`: how the API runs."""

    request_timeout: Seconds = ranged(
        "request_timeout_seconds", 60, limits.REQUEST_TIMEOUT_MAX, 3600, "the platform ends a request by then"
    )
    """Request timeout of the service."""
    run_retention: Seconds = ranged(
        "run_retention_seconds", 3600, 365 * 86_400, 604_800, "records would go while their runs are open, or pile up"
    )
    """How long a run's record is kept after its last write."""
    concurrency: Count = ranged("concurrency", 1, 1000, 80, "the platform would refuse the service", unit="requests")
    """Requests that one instance takes at once."""
    max_instances: Count = ranged("max_instances", 1, 1000, 10, _INSTANCES)
    """Most instances of the service."""
    min_instances: Count = ranged("min_instances", 0, 1000, 0, _INSTANCES)
    """Instances that are always there; 0 scales to zero."""
    key_hashes: Mapping[
        Annotated[str, shaped(_CALLER)],
        Annotated[str, shaped(_DIGEST)],
    ] = explained(
        Explanation(
            "must map lower case names to the 64 hexadecimal digits of the SHA-256 of each key's secret part",
            "no caller could prove who it is",
            '{"shop": "(the hash that `holdfast keys new shop` prints)"}',
            secret=True,
        ),
        {},
    )
    """Name of a caller -> SHA-256 of its key's secret part; empty: nobody may call."""
    cpu: Cpu = explained(_CPU_RULE, "1")
    """CPUs of one instance."""
    memory: Memory = explained(_MEMORY_RULE, "512Mi")
    """Memory limit of one instance."""
