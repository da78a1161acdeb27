"""`holdfast:image_build`: the image is built by the deployment."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from infra.sections.section import Section

PACKAGE: Final = "pulumi_docker_build"
"""What builds; in the dependency group `image`, which is not installed by default."""


class ImageBuildPlan(Section):
    """`holdfast:image_build`: the image is built from the checkout's Dockerfile by each deployment, and pushed.

    In place of `holdfast:image`. It needs a Docker daemon with BuildKit that may push to the stack's repository; a
    preview needs none, because it builds nothing. There is nothing to set yet: the section is `{}`.
    """


def is_builder_installed() -> bool:
    """Whether this environment has PACKAGE."""
    return find_spec(PACKAGE) is not None
