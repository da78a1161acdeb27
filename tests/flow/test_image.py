"""The image holds what the services need, and nothing else: its steps are taken here with the installed packages.

Does not build the image: that needs a builder and a registry. The base's digest is therefore not looked up.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker

ROOT = Path(__file__).parents[2]
FROM_HERE = re.compile(r"COPY (?!--from)(.+) \S+")
EX_CONFIG = 78


def instructions() -> list[str]:
    """The Dockerfile's instructions, each on one line."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def copied() -> list[str]:
    """What is copied from the checkout."""
    return [name for line in instructions() if (found := FROM_HERE.fullmatch(line)) for name in found[1].split()]


def locked() -> set[str]:
    """Packages that `uv export --no-default-groups` names here, from the lock file."""
    with (ROOT / "uv.lock").open("rb") as stream:
        packages: dict[str, dict[str, Any]] = {row["name"]: row for row in tomllib.load(stream)["package"]}
    seen: set[str] = set()
    todo = [(row["name"], tuple(row.get("extra", ()))) for row in _applying(packages["holdfast"]["dependencies"])]
    while todo:
        name, extras = todo.pop()
        wanted = packages[name].get("dependencies", []) if name not in seen else []
        wanted = [*wanted, *(row for extra in extras for row in packages[name]["optional-dependencies"][extra])]
        seen.add(name)
        todo += [(row["name"], tuple(row.get("extra", ()))) for row in _applying(wanted)]
    return seen


def _applying(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if "marker" not in row or Marker(row["marker"]).evaluate()]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `app` and `packages`, as the image has them."""
    folder = tmp_path_factory.mktemp("image")
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "app" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in locked():
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                place = folder / "packages" / file
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(Path(str(file.locate())))
    return folder


def python(image: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter as the image does: nothing of this machine's environment, no other packages."""
    environment = {"PYTHONPATH": str(image / "packages"), "PORT": "8080", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", *words]
    return subprocess.run(command, cwd=image / "app", env=environment, capture_output=True, text=True, timeout=100)


def test_the_image_is_made_of_the_runtime_the_jobs_and_the_locked_dependencies() -> None:
    assert copied() == ["pyproject.toml", "uv.lock", "runtime", "jobs"]
    (install,) = [line for line in instructions() if "uv export" in line]
    assert "--frozen --no-default-groups --no-emit-project" in install
    assert "--no-deps --require-hashes" in install


def test_the_builder_is_sent_nothing_else() -> None:
    """BR-126: no stack file, no key and no local state can end up in a layer."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert [line[1:] for line in lines if line.startswith("!")] == copied()


def test_the_image_is_pinned_and_runs_as_nobody_in_particular() -> None:
    lines = instructions()
    given = dict(line.removeprefix("ARG ").split("=", 1) for line in lines if line.startswith("ARG "))

    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"${BASE}"}
    assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", given["BASE"])
    assert lines[-3:] == ["USER 10001:10001", "STOPSIGNAL SIGTERM", 'ENTRYPOINT ["python", "-m", "runtime"]']
    (variables,) = [line for line in lines if line.startswith("ENV ")]
    assert not re.search(r"(KEY|SECRET|TOKEN|PASSWORD|CREDENTIALS)", variables)
    assert any("compileall" in line for line in lines)


@pytest.mark.parametrize("role", ["api", "worker", "executor"])
def test_a_role_starts_up_to_what_its_environment_lacks(image: Path, role: str) -> None:
    done = python(image, "-m", "runtime", role)

    assert done.returncode == EX_CONFIG, done.stderr
    assert "missing" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_everything_that_is_in_the_image_can_be_imported_and_nothing_else(image: Path) -> None:
    program = """
import importlib, importlib.util, pkgutil, runtime, jobs
for package in (runtime, jobs):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
others = ("infra", "policies", "sandbox", "cli", "tests", "pulumi", "pulumi_gcp", "pydantic", "yaml", "pytest", "typer")
print([name for name in others if importlib.util.find_spec(name)])
"""
    done = python(image, "-c", program)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
