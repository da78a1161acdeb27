"""Secrets are unwrapped for the sandbox and shown to nobody."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from sandbox.engine.embedded import realise
from sandbox.world import SECRET_VERSION
from tests.support.programs import CONFIG, run


def secret_program() -> None:
    secret = gcp.secretmanager.Secret("key", secret_id="key", replication={"auto": {}})
    version = gcp.secretmanager.SecretVersion(
        "version", secret=secret.id, secret_data=pulumi.Config().require_secret("key")
    )
    pulumi.export("version", version.version)
    pulumi.export("key", pulumi.Config().require_secret("key"))
    pulumi.export("data", version.secret_data)


def test_secrets_are_unwrapped_and_stay_marked(tmp_path: Path) -> None:
    """BR-126."""
    deployment = run(secret_program, tmp_path)
    (version,) = deployment.world.of_type(SECRET_VERSION)

    assert deployment.outputs == {"version": "1", "key": "sesame", "data": "sesame"}
    assert deployment.secret_outputs == {"key", "data"}
    assert version.secrets == {"secretData"}
    assert deployment.world.secret_value("key", "1") == "sesame"
    assert "sesame" not in (tmp_path / "world.json").read_text()
    assert "sesame" not in repr(deployment)
    assert "sesame" not in repr(deployment.registrations)


def test_a_secret_that_did_not_change_is_no_change_in_another_process(tmp_path: Path) -> None:
    run(secret_program, tmp_path)
    second = run(secret_program, tmp_path)  # reads the world from its file, which has no secrets

    assert len(second.unchanged) == 2
    assert second.world.secret_value("key", "1") == "sesame"


def test_a_changed_secret_is_a_new_version_and_the_old_one_goes_last(tmp_path: Path) -> None:
    run(secret_program, tmp_path)
    second = realise(
        CONFIG,
        {"holdfast:key": "barley"},
        stack="test",
        world_dir=tmp_path,
        program=secret_program,
        with_policies=False,
    )

    assert second.outputs["version"] == "2"
    assert len(second.created) == len(second.deleted) == 1
    assert second.world.secret_value("key", "1") is None
