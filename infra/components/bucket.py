"""A bucket of ours: what every bucket has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.settings import StackSettings

RECOVERY_MIN: Final = 7
"""Days for which a deleted object can be brought back, where it can at all: Google's shortest."""
_DAY: Final = 86_400


@dataclass(frozen=True, kw_only=True)
class BucketArgs:
    """What differs between buckets.

    Attributes:
        settings: the stack's.
        name: physical name, unique in all of Google's cloud.
        part: value of the label `part`.
        recovery_days: days for which a deleted or overwritten object can be brought back; 0 for none.
        kept_days: days after which an object goes; None keeps objects until somebody deletes them.
    """

    settings: StackSettings
    name: str
    part: str
    recovery_days: int
    kept_days: int | None = None


def create_bucket(name: str, args: BucketArgs, *, parent: pulumi.Resource) -> gcp.storage.Bucket:
    """Declares a bucket in the stack's region that is never public and whose objects have no permissions of their own.

    A protected stack keeps it, and what is in it, whatever is destroyed; any other stack takes its objects along.
    """
    settings, protected = args.settings, args.settings.deletion_protection
    return gcp.storage.Bucket(
        name,
        name=args.name,
        project=settings.project,
        location=settings.region.upper(),
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        force_destroy=not protected,
        deletion_policy="PREVENT" if protected else "DELETE",
        # A version that is kept is archived, not deleted, and no event would tell that it is gone.
        versioning=gcp.storage.BucketVersioningArgs(enabled=False),
        soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=args.recovery_days * _DAY),
        lifecycle_rules=_lifecycle(args.kept_days),
        labels=labels(settings.stack, args.part),
        opts=pulumi.ResourceOptions(parent=parent, protect=protected),
    )


def _lifecycle(kept_days: int | None) -> list[gcp.storage.BucketLifecycleRuleArgs]:
    if kept_days is None:
        return []
    return [
        gcp.storage.BucketLifecycleRuleArgs(
            action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
            condition=gcp.storage.BucketLifecycleRuleConditionArgs(age=kept_days),
        )
    ]
