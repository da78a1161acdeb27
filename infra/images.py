"""What the services run: the image that the stack names, or the one that its deployment builds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pulumi

from infra.components.artifact_repository import ArtifactRepository, ArtifactRepositoryArgs
from infra.components.image import Image, ImageArgs
from infra.settings import StackSettings


@dataclass(frozen=True, slots=True)
class DeployedImage:
    """The image of every service.

    Attributes:
        reference: its name with its digest; not known before the first deployment that builds it.
        exports: what the stack exports of it and of the repository.
    """

    reference: pulumi.Input[str]
    exports: dict[str, pulumi.Input[str]] = field(default_factory=dict)


def deploy_image(settings: StackSettings) -> DeployedImage:
    """Declares the repository and the build, where the stack has sections for them."""
    if settings.artifact_repository is None:
        return DeployedImage(_named(settings))
    repository = ArtifactRepository(
        "images", ArtifactRepositoryArgs(settings=settings, plan=settings.artifact_repository)
    )
    exports: dict[str, pulumi.Input[str]] = {"image_repository": repository.address}
    if settings.image_build is None:
        return DeployedImage(_named(settings), exports)
    built = Image("runtime", ImageArgs(settings=settings, repository=repository))
    return DeployedImage(built.reference, {**exports, "image": built.reference})


def _named(settings: StackSettings) -> str:
    """`infra.values` lets no stack come so far that neither names its image nor builds it."""
    return cast("str", settings.image)
