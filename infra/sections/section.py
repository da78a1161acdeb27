"""What every section of a stack file is, and the settings that several have."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict

from infra.fields import Explanation, fitting, shaped
from infra.instance_size import is_memory

_CPU: Final = re.compile(r"[12468]")

INSTANCES_DAMAGE: Final = "the region's quota is shared, and an unbounded service can spend it and the budget"
SERVICE_DAMAGE: Final = "the platform would refuse the service"
CPU_RULE: Final = Explanation("must be 1, 2, 4, 6 or 8 CPUs", SERVICE_DAMAGE, '"1"')
MEMORY_RULE: Final = Explanation("must be an amount like 512Mi or 2Gi, from 128Mi to 32Gi", SERVICE_DAMAGE, "1Gi")

Cpu = Annotated[str, shaped(_CPU)]
"""CPUs of an instance: the numbers that Cloud Run has."""
Memory = Annotated[str, fitting(is_memory)]
"""Memory limit of an instance."""


class Section(BaseModel):
    """Frozen; a key that is not described is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
