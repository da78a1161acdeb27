"""Where the stack's images are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.sections.artifact_repository import ArtifactRepositoryPlan
from infra.settings import StackSettings

_DAY: Final = 86_400


@dataclass(frozen=True, kw_only=True)
class ArtifactRepositoryArgs:
    """How long versions are kept."""

    settings: StackSettings
    plan: ArtifactRepositoryPlan


class ArtifactRepository(pulumi.ComponentResource):
    """A repository of container images whose tags cannot be moved, and which cleans itself.

    What is deployed is never cleaned away: the digest that the stack names is kept by a policy of its own, whatever its
    age, and an image that the stack builds is among the newest versions, as long as nobody else pushes beside it. What
    runs needs no repository in any case: Cloud Run keeps a copy of what serves.

    Does not push images, and grants nobody anything: Cloud Run's agent may read the repositories of its own project,
    and whoever pushes is no part of the stack. A protected stack keeps it; any other takes its images along.
    """

    repository: gcp.artifactregistry.Repository
    address: str
    """In front of an image's name, for `docker push`."""

    def __init__(self, name: str, args: ArtifactRepositoryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:ArtifactRepository", name, {}, opts)
        settings, plan, protected = args.settings, args.plan, args.settings.deletion_protection
        self.address = settings.names.repository_address
        self.repository = gcp.artifactregistry.Repository(
            f"{name}-repository",
            repository_id=settings.names.repository,
            project=settings.project,
            location=settings.region,
            format="DOCKER",
            description="Holdfast: the image of every service",
            docker_config=gcp.artifactregistry.RepositoryDockerConfigArgs(immutable_tags=True),
            cleanup_policies=_cleanup(settings.image, plan),
            cleanup_policy_dry_run=False,
            # Without a word from the stack, an API that somebody enables in the project would charge for each image.
            vulnerability_scanning_config=gcp.artifactregistry.RepositoryVulnerabilityScanningConfigArgs(
                enablement_config="INHERITED" if plan.vulnerability_scanning else "DISABLED"
            ),
            deletion_policy="PREVENT" if protected else "DELETE",
            labels=labels(settings.stack, "image"),
            opts=pulumi.ResourceOptions(parent=self, protect=protected),
        )
        self.register_outputs({"address": self.address})


def _cleanup(image: str | None, plan: ArtifactRepositoryPlan) -> list[gcp.artifactregistry.RepositoryCleanupPolicyArgs]:
    """What one policy keeps no other deletes. Every policy says what it is for, so that none is read as another."""
    policies = [
        gcp.artifactregistry.RepositoryCleanupPolicyArgs(
            id="delete-old",
            action="DELETE",
            condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(
                tag_state="ANY", older_than=f"{plan.kept_days * _DAY}s"
            ),
        ),
        gcp.artifactregistry.RepositoryCleanupPolicyArgs(
            id="keep-newest",
            action="KEEP",
            most_recent_versions=gcp.artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                keep_count=plan.kept_versions
            ),
        ),
    ]
    if image is not None:
        digest = image.rpartition("@")[2]
        policies.append(
            gcp.artifactregistry.RepositoryCleanupPolicyArgs(
                id="keep-deployed",
                action="KEEP",
                condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(version_name_prefixes=[digest]),
            )
        )
    return policies
