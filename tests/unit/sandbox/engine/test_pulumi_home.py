"""The private folder of the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.world import World
from tests.support.provider import new_world


def test_the_plugin_is_in_the_folder_and_is_told_its_world_by_its_launcher(tmp_path: Path) -> None:
    home = PulumiHome(tmp_path / "home")
    home.prepare("holdfast", new_world(home.world_dir))
    (launcher,) = (home.root / "plugins").glob("resource-gcp-v*/pulumi-resource-gcp")

    assert launcher.stat().st_mode & 0o777 == 0o700
    assert f"-m sandbox.engine.plugin {home.world_dir} " in launcher.read_text()
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert World.load(home.world_dir) is not None


def test_the_engine_is_offline_and_looks_for_plugins_nowhere_else(tmp_path: Path) -> None:
    environment = PulumiHome(tmp_path).environment()

    assert environment["PULUMI_HOME"] == str(tmp_path)
    assert environment["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/state"
    assert environment["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "true"
    assert not any("WORLD" in name or "ENDPOINT" in name for name in environment)


def test_a_folder_is_for_one_project(tmp_path: Path) -> None:
    home = PulumiHome(tmp_path)
    home.prepare("holdfast", new_world(home.world_dir))
    home.prepare("holdfast", new_world(home.world_dir))

    with pytest.raises(DeploymentFailed, match=r"holds the world of p-test .* remove it to start anew"):
        home.prepare("holdfast", World("other", "123456789012", "europe-west1", home.world_dir))


def test_values_are_replaced_and_the_way_they_are_encrypted_stays(tmp_path: Path) -> None:
    home = PulumiHome(tmp_path)
    home.prepare("holdfast", new_world(home.world_dir))
    path = home.project_dir / "Pulumi.dev.yaml"
    path.write_text("encryptionsalt: v1:salt\nconfig:\n  holdfast:old: x\n  holdfast:key: {secure: v1:abc}\n")

    home.write_config("dev", {"holdfast:worker": '{"run_timeout_seconds": 60}', "holdfast:number": "12"})

    assert yaml.safe_load(path.read_text()) == {
        "encryptionsalt": "v1:salt",
        "config": {"holdfast:worker": '{"run_timeout_seconds": 60}', "holdfast:number": "12"},
    }


def test_one_process_works_in_a_folder_and_a_killed_engines_lock_goes(tmp_path: Path) -> None:
    home = PulumiHome(tmp_path)
    left = tmp_path / "state" / ".pulumi" / "locks" / "organization" / "holdfast" / "dev" / "left.json"
    left.parent.mkdir(parents=True)
    left.touch()

    with home.held():
        assert not left.exists()
        with pytest.raises(DeploymentFailed, match="in use by another process"), home.held():
            pass
    with home.held():
        pass
