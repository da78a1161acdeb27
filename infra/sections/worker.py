"""`holdfast:worker`: how each push worker runs."""

from __future__ import annotations

from typing import Final

from infra.fields import Count, Explanation, Seconds, explained, ranged
from infra.sections.section import CPU_RULE, INSTANCES_DAMAGE, MEMORY_RULE, SERVICE_DAMAGE, Cpu, Memory, Section
from runtime.contract import limits
from runtime.contract.settings.words import PushAuth

_AUTH: Final = Explanation(
    "must be platform or in_process",
    "the invoker check and the worker would not agree on who checks a push token",
    "platform",
)


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
    concurrency: Count = ranged("concurrency", 1, 1000, 1, SERVICE_DAMAGE, unit="requests")
    """Requests that one instance takes at once; a parked redelivery is one of them."""
    max_instances: Count = ranged("max_instances", 1, 1000, 10, INSTANCES_DAMAGE)
    """Most instances of the service."""
    min_instances: Count = ranged("min_instances", 0, 1000, 0, INSTANCES_DAMAGE)
    """Instances that are always there; 0 scales to zero."""
    key_grace: Seconds = ranged(
        "key_grace_seconds", 0, 21_600, 0, "revoked signing keys would be accepted for too long"
    )
    """How long known signing keys are used beyond their hour while new ones cannot be fetched."""
    push_auth: PushAuth = explained(_AUTH, PushAuth.PLATFORM)
    """Who checks push tokens; the service's invoker check follows from it."""
    cpu: Cpu = explained(CPU_RULE, "1")
    """CPUs of one instance."""
    memory: Memory = explained(MEMORY_RULE, "1Gi")
    """Memory limit of one instance, the processes of its engines included."""
