"""What the services run, and where it comes from: the repository of images, and the image that a deployment builds.

Does not cover a build: there is no Docker here. What the builder is told is looked at instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.provider.products.artifact_registry import REPOSITORY
from sandbox.stack_file import StackFileUnusable, read_stack_file
from sandbox.world import SERVICE
from tests.support.docker_build import DIGEST, IMAGE, building, installed, not_installed
from tests.support.job_keys import pair
from tests.support.real_engine import ROOT
from tests.support.stacks import IMAGE as NAMED
from tests.support.stacks import PROJECT, REGION, SIGNING_KEY, loaded, realised, refused, stack_values

RUNTIME = f"{REGION}-docker.pkg.dev/{PROJECT}/holdfast/runtime"
BUILT: dict[str, Any] = {"image": None, "image_build": {}, "artifact_repository": {}, "executor": {}}
DAY = 86_400


def repository_of(stack: Deployment) -> dict[str, Any]:
    (repository,) = stack.world.of_type(REPOSITORY)
    return dict(repository.inputs)


def images_of(stack: Deployment) -> set[str]:
    return {one.inputs["template"]["containers"][0]["image"] for one in stack.world.of_type(SERVICE)}


def kept_and_deleted(stack: Deployment) -> dict[str, tuple[str, Any]]:
    return {
        one["id"]: (one["action"], one.get("condition") or one["mostRecentVersions"])
        for one in repository_of(stack)["cleanupPolicies"]
    }


def test_a_repository_is_in_the_stacks_region_with_tags_that_stay(tmp_path: Path) -> None:
    """BR-138."""
    stack = realised(tmp_path, artifact_repository={})
    repository = repository_of(stack)

    assert (repository["repositoryId"], repository["location"], repository["format"]) == ("holdfast", REGION, "DOCKER")
    assert repository["dockerConfig"] == {"immutableTags": True}
    assert set(repository["labels"]) == {"product", "stack", "part"}
    assert stack.outputs["image_repository"] == RUNTIME.removesuffix("/runtime")
    assert images_of(stack) == {NAMED}


def test_the_image_that_is_deployed_is_kept_whatever_its_age(tmp_path: Path) -> None:
    plan = {"kept_versions": 5, "kept_days": 7}
    first = realised(tmp_path, artifact_repository=plan)
    assert kept_and_deleted(first) == {
        "delete-old": ("DELETE", {"tagState": "ANY", "olderThan": f"{7 * DAY}s"}),
        "keep-newest": ("KEEP", {"keepCount": 5}),
        "keep-deployed": ("KEEP", {"versionNamePrefixes": [f"sha256:{'1' * 64}"]}),
    }
    assert repository_of(first)["cleanupPolicyDryRun"] is False

    second = realised(tmp_path, artifact_repository=plan, image=f"{RUNTIME}@{DIGEST}")
    assert kept_and_deleted(second)["keep-deployed"] == ("KEEP", {"versionNamePrefixes": [DIGEST]})
    assert {urn.rpartition("::")[2] for urn in second.updated} == {
        "images-repository",
        "execution-service",
        "api-service",
    }


@pytest.mark.parametrize(("asked", "said"), [(True, "INHERITED"), (False, "DISABLED")])
def test_images_are_scanned_where_the_stack_asks_for_it_and_pays(tmp_path: Path, *, asked: bool, said: str) -> None:
    stack = realised(tmp_path, artifact_repository={"vulnerability_scanning": asked})
    assert repository_of(stack)["vulnerabilityScanningConfig"] == {"enablementConfig": said}


@pytest.mark.parametrize("protected", [True, False])
def test_a_protected_stack_keeps_its_images(tmp_path: Path, *, protected: bool) -> None:
    """BR-119."""
    stack = realised(tmp_path, artifact_repository={}, deletion_protection=str(protected).lower())
    (repository,) = stack.world.of_type(REPOSITORY)

    assert repository.protect is protected
    assert repository.inputs["deletionPolicy"] == ("PREVENT" if protected else "DELETE")


def test_the_stacks_of_the_repository_have_one_but_the_local_one() -> None:
    asking = [
        stack
        for stack in ("dev", "local", "prod")
        if "holdfast:artifact_repository" in read_stack_file(ROOT / f"Pulumi.{stack}.yaml")
    ]
    assert asking == ["dev", "prod"]


def test_a_built_image_reaches_every_service_by_its_digest(tmp_path: Path) -> None:
    with building():
        stack = realised(tmp_path, **BUILT)

    assert len(stack.world.of_type(SERVICE)) == 3
    assert images_of(stack) == {f"{RUNTIME}@{DIGEST}"}
    assert stack.outputs["image"] == f"{RUNTIME}@{DIGEST}"
    assert "keep-deployed" not in kept_and_deleted(stack)


def test_the_builder_is_told_what_to_build_and_where_to_push_it(tmp_path: Path) -> None:
    with building():
        stack = realised(tmp_path, **BUILT)
    (image,) = [one for one in stack.registrations if one.type == IMAGE]

    (export,) = image.inputs["exports"]
    assert export.keys() == {"registry"}
    assert {"names": [RUNTIME], "pushByDigest": True}.items() <= export["registry"].items()
    assert image.inputs["platforms"] == ["linux/amd64"]
    assert image.inputs["buildOnPreview"] is False, "a preview needs no Docker"
    assert image.inputs["push"] is False, "a push under a tag would be one too many"
    assert (ROOT / "infra" / image.inputs["context"]["location"] / "Dockerfile").exists()
    assert any(urn.endswith("::images-repository") for urn in image.dependencies)
    assert image.urn.split("::")[2] == f"holdfast:infra:Image${IMAGE}"


def test_a_deployment_whose_builder_says_no_digest_ends(tmp_path: Path) -> None:
    with building(""), pytest.raises(DeploymentFailed, match="was built, but the builder says no digest"):
        realised(tmp_path, **BUILT)


def test_a_stack_names_its_image_or_builds_it() -> None:
    with installed():
        assert loaded(**BUILT).image is None
        (neither,) = refused(image=None)
        (both,) = refused(image_build={}, artifact_repository={})
        (nowhere,) = refused(image=None, image_build={})
        (unknown,) = refused(**{**BUILT, "image_build": {"target": "slim"}})

    assert neither.startswith(
        "missing_stack_value: holdfast:image is not set, but must be, or holdfast:image_build in "
    )
    assert both.startswith("invalid_stack_value: holdfast:image_build is set, and holdfast:image is too, but only one ")
    assert nowhere.startswith("missing_stack_value: holdfast:artifact_repository is not set, but must be where ")
    assert nowhere.endswith("; for example holdfast:artifact_repository: {}")
    assert unknown.startswith("unknown_stack_key: holdfast:image_build.target is no setting")


def test_a_build_without_its_builder_says_what_installs_it() -> None:
    with not_installed():
        (line,) = refused(**BUILT)
    assert line.startswith(
        "image_builder_missing: holdfast:image_build is set, but pulumi_docker_build is not installed"
    )
    assert "`uv sync --inexact --group image`" in line


def test_a_stack_that_builds_cannot_be_tried_offline_and_says_so_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        (ROOT / "Pulumi.dev.yaml").read_text().replace("  holdfast:image: ", "  # ") + "  holdfast:image_build: {}\n"
    )
    with pytest.raises(StackFileUnusable) as caught:
        read_stack_file(file)
    assert str(caught.value).startswith(f"{file}: holdfast:image_build needs a builder, which nothing has offline; ")
    assert "\n" not in str(caught.value)

    values = stack_values(**BUILT)
    secrets = {SIGNING_KEY: pair().private}
    with installed(), pytest.raises(DeploymentFailed) as refused_here:
        realise(values, secrets, stack="test", world_dir=tmp_path / "world")
    (line,) = refused_here.value.lines
    assert line.startswith(f"runtime-image ({IMAGE}): ")


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        ({"kept_versions": 1}, "must be a whole number, 2 to 1000 versions"),
        ({"kept_days": 0}, "must be a whole number, 1 to 3650 days"),
        ({"vulnerability_scanning": "sometimes"}, "must be true or false"),
    ],
)
def test_a_value_of_the_repository_that_does_not_hold_says_what_would(plan: dict[str, Any], line: str) -> None:
    (found,) = refused(artifact_repository=plan)
    assert line in found
