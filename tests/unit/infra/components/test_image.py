"""The reference of a built image, known and not known yet."""

from __future__ import annotations

from unittest.mock import patch

import pulumi
import pytest

from infra.components.image import by_digest

NAME = "europe-west1-docker.pkg.dev/p-test/holdfast/runtime"
DIGEST = f"sha256:{'a' * 64}"


async def test_a_built_image_is_named_by_its_digest() -> None:
    reference = by_digest(NAME, DIGEST)
    assert await reference.future() == f"{NAME}@{DIGEST}"
    assert await reference.is_known()


async def test_a_preview_that_builds_nothing_does_not_know_the_reference() -> None:
    """Rather than a name without a digest, which a reviewer would take for what is deployed."""
    with patch("pulumi.runtime.is_dry_run", return_value=True):
        assert not await by_digest(NAME, "").is_known()


async def test_a_deployment_whose_builder_says_no_digest_ends() -> None:
    with pytest.raises(pulumi.RunError, match=f"{NAME} was built, but the builder says no digest"):
        by_digest(NAME, "")
