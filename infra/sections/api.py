"""`holdfast:api`: how the API runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from infra.fields import Count, Explanation, Seconds, explained, ranged, shaped
from infra.sections.section import CPU_RULE, INSTANCES_DAMAGE, MEMORY_RULE, SERVICE_DAMAGE, Cpu, Memory, Section
from runtime.contract import limits

_CALLER: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


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
    concurrency: Count = ranged("concurrency", 1, 1000, 80, SERVICE_DAMAGE, unit="requests")
    """Requests that one instance takes at once."""
    max_instances: Count = ranged("max_instances", 1, 1000, 10, INSTANCES_DAMAGE)
    """Most instances of the service."""
    min_instances: Count = ranged("min_instances", 0, 1000, 0, INSTANCES_DAMAGE)
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
    cpu: Cpu = explained(CPU_RULE, "1")
    """CPUs of one instance."""
    memory: Memory = explained(MEMORY_RULE, "512Mi")
    """Memory limit of one instance."""
