"""The pack by itself: its folder, and an environment with what its requirements name and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

POLICIES = Path(__file__).parents[2] / "policies"
REQUIRED = [
    Requirement(line) for line in (POLICIES / "requirements.txt").read_text().splitlines() if not line.startswith("#")
]


def needed(requirements: list[Requirement]) -> dict[str, Distribution]:
    """Installed distributions that these requirements name, with all that those need."""
    found: dict[str, Distribution] = {}
    while requirements:
        one = requirements.pop()
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found[one.name] = distribution(one.name)
            requirements.extend(map(Requirement, found[one.name].requires or ()))
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the pack with its environment: links to ours, of no more than it needs (of `google`, all there is)."""
    pack = tmp_path / "holdfast-0.1.0"
    shutil.copytree(POLICIES, pack, ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(pack / ".venv", symlinks=True)
    (packages,) = (pack / ".venv").glob("lib/python*/site-packages")
    for name in sorted({file.parts[0] for one in needed([*REQUIRED]).values() for file in one.files or ()} - {".."}):
        source = Path(str(distribution("pulumi-policy").locate_file(name)))
        if source.exists():
            (packages / name).symlink_to(source)
    return pack


def started(command: list[str | Path], folder: Path) -> Iterator[str]:
    """First line of what a pack says, in an environment that names no Python."""
    environment = {"PATH": os.defpath, "HOME": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline()
        process.terminate()


def test_an_installed_pack_starts_with_its_own_environment(installed: Path, tmp_path: Path) -> None:
    """As the engine starts the executable, in the folder of some program."""
    assert [int(line) for line in started([installed / "run", "127.0.0.1:1"], tmp_path)] > [0]


def test_an_installed_pack_starts_as_pulumis_python_host_starts_one(installed: Path) -> None:
    option = yaml.safe_load((installed / "PulumiPolicy.yaml").read_text())["runtime"]["options"]["virtualenv"]
    python = installed / option / "bin/python"
    assert [int(line) for line in started([python, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."], installed)] > [0]


def test_the_requirements_are_those_that_the_tests_run_with() -> None:
    assert [(one.name, str(one.specifier)) for one in REQUIRED] == [
        ("pulumi-policy", f"=={distribution('pulumi-policy').version}")
    ]
