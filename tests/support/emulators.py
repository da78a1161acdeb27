"""Google's Firestore and Pub/Sub emulators for tests: started on demand, once per session and worker.

Java is called directly, because the SDK's wrappers leave a child behind. Nothing reads an emulator variable: tests
hand the address to constructors.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient

from tests.support.requirements import missing

START_SECONDS: Final = 60
STOP_SECONDS: Final = 10
_KNOWN_ROOTS: Final = (
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/opt/homebrew/share/google-cloud-sdk",
    "/snap/google-cloud-sdk/current",
    "~/google-cloud-sdk",
)
_FIRESTORE: Final = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
_PUBSUB: Final = "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar"


def sdk_roots() -> list[Path]:
    """Where a Google Cloud SDK may be, most explicit first."""
    found = [os.environ["CLOUDSDK_ROOT"]] if os.environ.get("CLOUDSDK_ROOT") else []
    gcloud = shutil.which("gcloud")
    if gcloud:
        found.append(str(Path(gcloud).resolve().parent.parent))
    return [Path(root).expanduser() for root in (*found, *_KNOWN_ROOTS)]


@pytest.fixture(scope="session")
def firestore_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The emulator's `host:port`."""
    with running_firestore(tmp_path_factory.mktemp("firestore") / "output.txt") as address:
        yield address


@pytest.fixture(scope="session")
def pubsub_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The emulator's `host:port`."""
    jar = _jar(_PUBSUB, "Pub/Sub")
    with _running(["-Xmx512m", "-jar", str(jar)], tmp_path_factory.mktemp("pubsub") / "output.txt") as address:
        yield address


@contextmanager
def running_firestore(output: Path) -> Iterator[str]:
    """Google's Firestore emulator, as `host:port`; what it prints goes to a file."""
    jar = _jar(_FIRESTORE, "Firestore")
    main = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
    command = ["-Xmx512m", "-Duser.language=en", "-cp", str(jar), main, "start"]
    with _running(command, output) as address:
        yield address


@pytest.fixture
def project() -> str:
    """A project id that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


def firestore_client(address: str, project: str) -> AsyncClient:
    """A client of the emulator, for the running event loop."""
    client = AsyncClient(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    client._emulator_host = address  # the constructor takes it from the environment only
    assert client._firestore_api is not None  # built here: it looks for files, which would block a loop under test
    return client


def _jar(pattern: str, name: str) -> Path:
    jars = [jar for root in sdk_roots() for jar in sorted(root.glob(pattern))]
    if not jars:
        missing(f"Google's {name} emulator is not installed ({pattern} in a Google Cloud SDK)")
    return jars[0]


@contextmanager
def _running(arguments: list[str], output: Path) -> Iterator[str]:
    java = shutil.which("java")
    if java is None:
        missing("java is not installed, Google's emulators need it")
    port = _free_port()
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [java, *arguments, "--host=127.0.0.1", f"--port={port}"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        _await_ready(process, port, output)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ready = grpc.channel_ready_future(channel)
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                ready.result(timeout=0.5)
            except grpc.FutureTimeoutError:
                continue
            return
        ready.cancel()
    pytest.fail(f"an emulator did not start within {START_SECONDS} s: {output.read_text()[-2000:]}", pytrace=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
