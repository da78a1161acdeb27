"""Grants as the services ask for them: looked up once per state of the world, missing ones reported, not too often."""

from __future__ import annotations

from typing import Final

import structlog

from runtime.ports.clock import Clock
from sandbox.world import MissingGrant, Target, World

WARN_EVERY: Final = 60.0
"""Seconds between two warnings about the same missing grant."""

log = structlog.get_logger()


class Grants:
    """Who may do what, from the declared world.

    Args:
        world: what is declared.
        clock: spaces the warnings.
    """

    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._revision = -1
        self._answers: dict[tuple[str, tuple[str, ...], Target], MissingGrant | None] = {}
        self._warned: dict[MissingGrant, float] = {}

    def missing(self, member: str, roles: tuple[str, ...], target: Target) -> MissingGrant | None:
        """What the member lacks, None where it holds one of the roles. Nothing is logged. See World.missing_grant."""
        if self._revision != self._world.revision:
            self._revision = self._world.revision
            self._answers.clear()
        question = (member, roles, target)
        if question not in self._answers:
            self._answers[question] = self._world.missing_grant(member, roles, target)
        return self._answers[question]

    def allow(self, member: str, roles: tuple[str, ...], target: Target, *, step: str) -> bool:
        """Whether a service agent may take a step; where not, the warning `grant_missing` says what is missing.

        Args:
            member: `serviceAccount:EMAIL`.
            roles: any one of them suffices.
            target: what the grant is on.
            step: what does not happen without it, for the log.
        """
        missing = self.missing(member, roles, target)
        if missing is None:
            return True
        now = self._clock.monotonic()
        if now - self._warned.get(missing, -WARN_EVERY) >= WARN_EVERY:
            self._warned[missing] = now
            log.warning("grant_missing", grant=str(missing), step=step)
        return False
