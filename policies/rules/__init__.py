"""The rules, one file for each concern, in the order of their ids."""

from __future__ import annotations

from typing import Final

from ..rule import Rule
from . import (
    broker_timeouts,
    containers,
    dead_letters,
    delivery_timeouts,
    egress,
    environment,
    exposure,
    grants,
    identity,
    labels,
    privileges,
    service_timeouts,
    services,
    state,
)

_GROUPS: Final = "TDIXRSL"
"""First letters of ids: timeouts, dead letters, identity, exposure, runtime, state, labels and names."""

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (
            *delivery_timeouts.RULES,
            *broker_timeouts.RULES,
            *service_timeouts.RULES,
            *dead_letters.RULES,
            *identity.RULES,
            *grants.RULES,
            *privileges.RULES,
            *exposure.RULES,
            *egress.RULES,
            *containers.RULES,
            *services.RULES,
            *environment.RULES,
            *state.RULES,
            *labels.RULES,
        ),
        key=lambda rule: (_GROUPS.index(rule.id[0]), rule.id),
    )
)
"""Every rule, group by group."""
