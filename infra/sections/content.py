"""`holdfast:content`: the bucket of users' files."""

from __future__ import annotations

from infra.fields import Count, ranged
from infra.sections.section import Section


class ContentPlan(Section):
    """`holdfast:content`: the bucket of users' files, and the events of its objects.

    No worker takes the events yet. They are kept on a subscription for 31 days, and none of it exists where the section
    is left out.
    """

    recovery_days: Count = ranged("recovery_days", 7, 90, 7, "Cloud Storage would refuse the bucket", unit="days")
    """Days for which a deleted or overwritten object can be brought back."""
