"""What a role loads before it serves: on a cold start nothing else costs as much.

Names of modules, not times: a time depends on the machine, and every slow import of the past was a package by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.settings import api_env, executor_env, worker_env

ROOT = Path(__file__).parents[2]

GOOGLE_LIBRARIES = ("google.api", "google.api_core", "google.auth", "google.cloud", "google.oauth2", "google.pubsub_v1")
# Not rich: structlog loads it where it is installed, and no image has it.
NEVER = (
    *GOOGLE_LIBRARIES,
    "google.rpc",
    "cryptography.x509",
    "importlib.metadata",  # reads the files of every package that is installed
    "requests",
    "urllib3",
    "proto",
    "pulumi",
    "pulumi_gcp",
    "pydantic",
    "yaml",
    "PIL",
    "asyncpg",
    "typer",
    "pytest",
    "infra",
    "sandbox",
    "cli",
)

ENGINE_PROCESSES = ("ctypes", "runtime.execution.process.child", "runtime.execution.process.guard")
"""The fork server's side, which is a process of its own."""
SETTINGS = {role: f"runtime.contract.settings.{role}" for role in ("api", "executor", "worker")}
AIOHTTP_SERVER = ("aiohttp.web", "runtime.runner", "runtime.http.body", "runtime.http.problem")
OTHER_STORES = ("runtime.adapters.memory", "runtime.adapters.postgres")
TRACING = ("opentelemetry", "runtime.adapters.otlp")
PUSH_IDENTITY = ("runtime.identity.key_cache", "runtime.identity.push_token", "runtime.identity.verified_tokens")
"""Only who is pushed to knows whose tokens Google signs; an executor's callers are checked by the platform."""


def loaded(code: str, environ: Mapping[str, str] | None = None) -> set[str]:
    """The modules of a fresh interpreter after some code, that code's own apart."""
    script = f"from tests.support import loaded_modules\nloaded_modules.{code}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(dict(environ or {})),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def of(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    """Those modules that belong to one of the packages."""
    return {name for name in modules if any(name == each or name.startswith(f"{each}.") for each in packages)}


@pytest.mark.parametrize(
    ("role", "environ", "others"),
    [
        (
            "worker",
            worker_env(),
            ("runtime.api", "runtime.executor", "runtime.adapters.pubsub", *AIOHTTP_SERVER, *OTHER_STORES, *TRACING),
        ),
        (
            "api",
            api_env(),
            (
                "runtime.worker",
                "runtime.executor",
                "runtime.execution.process",
                "runtime.execution.attempt",
                "runtime.execution.callbacks",
                "multiprocessing",
                *OTHER_STORES,
                *TRACING,
            ),
        ),
    ],
)
def test_a_role_is_ready_without_what_it_does_not_use(
    role: str, environ: Mapping[str, str], others: tuple[str, ...]
) -> None:
    modules = loaded(f"print_role({role!r})", environ)
    assert "runtime.adapters.firestore_grpc" in modules, "the role was not wired, so this test sees nothing"
    assert of(modules, (*NEVER, *ENGINE_PROCESSES, *others)) == set()
    assert modules & {*SETTINGS.values()} == {SETTINGS[role]}


def test_an_executor_is_ready_without_anything_of_google() -> None:
    modules = loaded("print_role('executor')", executor_env())
    assert "runtime.executor.app" in modules, "the role was not built, so this test sees nothing"
    adapters = {name for name in modules if name.startswith("runtime.adapters.firestore")}
    others = ("google", "grpc", "runtime.api", "runtime.worker", *PUSH_IDENTITY, *OTHER_STORES, *TRACING)
    assert of(modules, (*NEVER, *ENGINE_PROCESSES, *others)) | adapters == set()
    assert modules & {*SETTINGS.values()} == {SETTINGS["executor"]}


@pytest.mark.parametrize(("role", "environ"), [("worker", worker_env()), ("executor", executor_env())])
def test_a_start_makes_no_dataclass_but_a_letters(role: str, environ: Mapping[str, str]) -> None:
    """Python writes and compiles the methods of each when its module is loaded; a struct's or a tuple's are there."""
    modules = loaded(f"print_role({role!r})", environ)
    files = {name: ROOT / f"{name.replace('.', '/')}.py" for name in of(modules, ("runtime",))}
    assert files
    made = {name for name, file in files.items() if file.exists() and "@dataclass" in file.read_text()}
    # A letter is read back by its members' names, which of the contract's words a dataclass alone allows.
    assert made <= {"runtime.contract.dead_letter"}


def test_execution_and_identity_load_nothing_of_google() -> None:
    modules = loaded("print_packages('runtime.execution', 'runtime.identity')")
    assert of(modules, (*NEVER, "google", "grpc", "runtime.adapters", "runtime.api", "runtime.worker")) == set()
