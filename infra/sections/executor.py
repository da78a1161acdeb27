"""`holdfast:executor`: how the executor runs; a stack without the key has none."""

from __future__ import annotations

from infra.fields import Count, Seconds, explained, ranged
from infra.sections.section import CPU_RULE, INSTANCES_DAMAGE, MEMORY_RULE, SERVICE_DAMAGE, Cpu, Memory, Section
from runtime.contract.settings.executor import DEFAULT_RUN_TIMEOUT
from runtime.contract.timeout_rules.service import RUN_MAX


class ExecutorPlan(Section):
    """`holdfast:executor`: how the executor runs."""

    run_timeout: Seconds = ranged("run_timeout_seconds", 1, RUN_MAX, DEFAULT_RUN_TIMEOUT, "a run would be cut off")
    """Longest a run may take while its caller waits; the request timeout of the service follows from it."""
    concurrency: Count = ranged("concurrency", 1, 1000, 10, SERVICE_DAMAGE, unit="requests")
    """Runs that one instance takes at once."""
    max_instances: Count = ranged("max_instances", 1, 1000, 10, INSTANCES_DAMAGE)
    """Most instances of the service."""
    min_instances: Count = ranged("min_instances", 0, 1000, 0, INSTANCES_DAMAGE)
    """Instances that are always there; 0 scales to zero."""
    cpu: Cpu = explained(CPU_RULE, "1")
    """CPUs of one instance."""
    memory: Memory = explained(MEMORY_RULE, "1Gi")
    """Memory limit of one instance, the processes of its engines included."""
