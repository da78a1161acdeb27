"""The image of every service, built by the deployment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import pulumi

from infra.components.artifact_repository import ArtifactRepository
from infra.settings import StackSettings

CONTEXT: Final = ".."
"""The checkout, from the program's folder, in which the engine starts the builder. A whole path would differ between
machines, and each would build anew what another one has built.
"""
PLATFORM: Final = "linux/amd64"
"""The one that Cloud Run runs."""


@dataclass(frozen=True, kw_only=True)
class ImageArgs:
    """Where the image goes."""

    settings: StackSettings
    repository: ArtifactRepository


class Image(pulumi.ComponentResource):
    """The checkout's Dockerfile, built and pushed by each deployment before which the checkout changed.

    It is pushed by its digest and has no tag: tags of the repository cannot be moved. A preview builds nothing. Does
    not manage credentials: Docker's own are used (`gcloud auth configure-docker`). Does not delete what it pushed; the
    repository cleans itself.
    """

    reference: pulumi.Output[str]
    """Name and digest; not known in a preview of a build."""

    def __init__(self, name: str, args: ImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        # In a dependency group of its own: a stack that names its image needs no builder.
        import pulumi_docker_build as docker_build

        super().__init__("holdfast:infra:Image", name, {}, opts)
        image = args.settings.names.image
        built = docker_build.Image(
            f"{name}-image",
            context=docker_build.BuildContextArgs(location=CONTEXT),
            platforms=[docker_build.Platform(PLATFORM)],
            exports=[
                docker_build.ExportArgs(registry=docker_build.ExportRegistryArgs(names=[image], push_by_digest=True))
            ],
            push=False,
            build_on_preview=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[args.repository.repository]),
        )
        self.reference = built.digest.apply(lambda digest: by_digest(image, digest))
        self.register_outputs({"reference": self.reference})


def by_digest(image: str, digest: str) -> pulumi.Output[str]:
    """The reference of a built image.

    Args:
        image: its name.
        digest: as the builder says it; "" from a preview, which builds nothing.

    Raises:
        RunError: a deployment has pushed the image, and the builder does not say which it is.
    """
    if digest:
        return pulumi.Output.from_input(f"{image}@{digest}")
    if not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(f"{image} was built, but the builder says no digest; services cannot name it")
    return _not_known()


def _not_known() -> pulumi.Output[str]:
    loop = asyncio.get_running_loop()
    value: asyncio.Future[str] = loop.create_future()
    known: asyncio.Future[bool] = loop.create_future()
    value.set_result("")
    known.set_result(False)
    return pulumi.Output(set(), value, known)
