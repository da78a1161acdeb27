"""`holdfast:usage_database`: the database that counts what users store."""

from __future__ import annotations

import re
from typing import Annotated, Final

from infra.fields import Count, Explanation, Flag, explained, ranged, shaped
from infra.sections.section import Section

_TIER: Final = re.compile(r"db-(?:f1-micro|g1-small|custom-[0-9]{1,2}-[0-9]{4,6})", re.ASCII)
_REFUSED: Final = "Cloud SQL would refuse the instance"


class UsageDatabasePlan(Section):
    """`holdfast:usage_database`: the database that counts what users store.

    It is paid for by the hour, and no worker uses it yet; none of it exists where the section is left out.
    """

    tier: Annotated[str, shaped(_TIER)] = explained(
        Explanation("must be db-f1-micro, db-g1-small or db-custom-CPUS-MEGABYTES", _REFUSED, "db-custom-1-3840"),
        "db-custom-1-3840",
    )
    """CPUs and memory."""
    regional: Flag = explained(
        Explanation("must be true or false", "it could not be told whether a zone may fail", "false"), default=False
    )
    """Whether another zone has a copy that takes over; twice the price."""
    disk_limit_gigabytes: Count = ranged(
        "disk_limit_gigabytes", 10, 10_000, 50, "the disk could grow without an end, and never shrinks"
    )
    """The disk grows by itself up to this size; at it, writes fail."""
    kept_backups: Count = ranged("kept_backups", 7, 365, 7, "there would be no day of the last week to go back to")
    """Daily backups; to any moment of the last seven days besides."""
    generation: Count = ranged("generation", 1, 999, 1, "names would be longer than Google allows")
    """Part of the instance's name, which Google keeps taken for a week after its deletion: raise it to begin anew."""
