"""`holdfast:dead_letter_sink`: how long dead letters are kept as files."""

from __future__ import annotations

from infra.fields import Count, ranged
from infra.sections.section import Section


class DeadLetterSinkPlan(Section):
    """`holdfast:dead_letter_sink`: how long dead letters are kept as files."""

    kept_days: Count = ranged(
        "kept_days", 31, 3650, 365, "a letter would go before Pub/Sub itself lets go of it, or never", unit="days"
    )
    """Days after which a file goes."""
