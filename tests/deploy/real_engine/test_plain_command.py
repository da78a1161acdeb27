"""The `pulumi` command without Holdfast around it, as a person types it, for the project as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from sandbox.engine.pulumi_home import PulumiHome
from sandbox.world import World
from tests.support.job_keys import pair
from tests.support.real_engine import PUBLIC_KEY, ROOT, SIGNING_KEY, binary, values_of


def test_the_project_runs_under_the_plain_command(tmp_path: Path) -> None:
    """The language host beside the command runs `infra/__main__.py` with the project's own environment."""
    values = values_of("dev")
    home = PulumiHome(tmp_path / "home")
    home.prepare(
        "holdfast",
        World(values["gcp:project"], values["holdfast:project_number"], values["gcp:region"], home.world_dir),
    )
    project = tmp_path / "project"
    project.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        shutil.copy(ROOT / name, project)
    for name in ("infra", ".venv"):
        (project / name).symlink_to(ROOT / name)

    def pulumi(*words: str, given: str = "") -> str:
        command = binary()
        path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [str(command), *words, "--non-interactive"],
            cwd=project,
            env={**os.environ, **home.environment(), "PATH": path},
            input=given,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pulumi("stack", "init", "dev")
    pulumi("config", "set", "--secret", SIGNING_KEY, given=pair().private)
    pulumi("config", "set", PUBLIC_KEY, pair().public)
    shown = pulumi("preview")

    assert "execution-push" in shown
    assert "to create" in shown
