"""Images that Cloud Run can pull, by a name that cannot come to mean another one."""

from __future__ import annotations

import pytest

from infra.image_name import is_image

DIGEST = f"@sha256:{'1' * 64}"


@pytest.mark.parametrize(
    "name",
    [
        "europe-west1-docker.pkg.dev/my-project/holdfast/runtime",
        "us-docker.pkg.dev/example.com/my-project/holdfast/runtime",
        "gcr.io/my-project/runtime",
        "eu.gcr.io/my-project/runtime:v1",
        "docker.io/acme/runtime",
        "acme/runtime",
        "runtime",
    ],
)
def test_an_image_of_a_registry_that_cloud_run_pulls_from(name: str) -> None:
    assert is_image(f"{name}{DIGEST}")
    assert not is_image(name), "a name without a digest can move"


@pytest.mark.parametrize(
    "name",
    [
        "ghcr.io/acme/runtime",
        "quay.io/acme/runtime",
        "registry.example.com:5000/runtime",
        "localhost/runtime",
        "localhost:5000/runtime",
        "docker.pkg.dev.example.com/p/r/runtime",
        "notgcr.io/p/runtime",
        "",
    ],
)
def test_an_image_that_cloud_run_would_not_find(name: str) -> None:
    assert not is_image(f"{name}{DIGEST}")
