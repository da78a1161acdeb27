"""`holdfast:artifact_repository`: where the stack's images are."""

from __future__ import annotations

from infra.fields import Count, Explanation, Flag, explained, ranged
from infra.sections.section import Section


class ArtifactRepositoryPlan(Section):
    """`holdfast:artifact_repository`: where the stack's images are; without the section the stack has no repository.

    An empty one costs nothing; what is in it is paid for by size.
    """

    kept_versions: Count = ranged(
        "kept_versions", 2, 1000, 20, "there would be no version to go back to, or no end to them", unit="versions"
    )
    """The newest versions of an image, which are kept whatever their age."""
    kept_days: Count = ranged(
        "kept_days", 1, 3650, 30, "versions would go before anyone can deploy them, or never", unit="days"
    )
    """Days after which any other version goes, but the one that the stack names."""
    vulnerability_scanning: Flag = explained(
        Explanation("must be true or false", "it could not be told whether each pushed image is paid for", "false"),
        default=False,
    )
    """Whether Artifact Analysis scans what is pushed: each image is paid for, and the project needs the API
    `containerscanning.googleapis.com`.
    """
