"""What a person reads who made a mistake; the texts are in `messages.txt`, to be read as they are.

`python -m tests.deploy.test_messages` writes them anew. Not here: what Pulumi says by itself, as of a wrong passphrase.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from rich.console import Console

from cli.client import Client
from cli.endpoint import Endpoint, find_endpoint
from cli.failure import CommandFailed
from cli.preview import preview_stack
from cli.up import check_port
from sandbox.engine.cli.binary import PulumiMissing, find_pulumi
from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.engine.registration import without
from tests.support.job_keys import pair
from tests.support.stacks import SIGNING_KEY, realised, stack_values

PAGE: Final = Path(__file__).with_name("messages.txt")
RUNTIME: Final = "europe-west1-docker.pkg.dev/my-project-dev/holdfast/runtime"
INVOKER: Final = ("gcp:cloudrunv2/serviceIamMember:ServiceIamMember", "execution-push-invokes")
VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "a unit in the value": {"worker": {"run_timeout_seconds": "540s"}},
    "no unit in the key": {"worker": {"run_timeout": 540}},
    "another unit in the key": {"worker": {"run_timeout_minutes": 9}},
    "a misspelt section": {"executer": {}},
    "a section that is no mapping": {"worker": "run_timeout_seconds=540"},
    "a tag in place of a digest": {"image": f"{RUNTIME}:latest"},
    "an image that Cloud Run does not pull": {"image": f"ghcr.io/acme/runtime@sha256:{'1' * 64}"},
    "no image": {"image": None},
    "an image, and a build of it": {"image_build": {}},
    "swapped timeouts": {"worker": {"request_timeout_seconds": 540, "run_timeout_seconds": 600}},
    "no signing key": {SIGNING_KEY: None},
    "a signing key that is none": {SIGNING_KEY: "c2VzYW1l"},
    "the public key, which is no setting": {"signing_public_key": pair("other").public},
    "a previous key without its id": {"previous_signing_public_key": pair("other").public},
    "a rotation's commands twice": {"previous_signing_public_key": pair().public, "previous_signing_key_id": "k0"},
    "one id for two keys": {
        "previous_signing_public_key": pair("other").public,
        "previous_signing_key_id": "backend-es256-v1",
    },
    "the project's id as its number": {"project_number": "my-project-dev"},
    "a zone as region": {"gcp:region": "europe-west1-b"},
    "a project's title as its id": {"gcp:project": "My Project"},
    "a workload that is not built": {"workloads": ["execution", "compilation"]},
    "a workload twice": {"workloads": ["execution", "execution"]},
    "three CPUs": {"worker": {"cpu": "3"}},
    "memory in another unit": {"worker": {"memory": "512M"}},
    "more instances always than at most": {"worker": {"min_instances": 5, "max_instances": 3}},
    "a long prefix": {"name_prefix": "holdfast-production"},
    "a prefix that Pub/Sub keeps for itself": {"name_prefix": "googoo"},
    "a prefix that Cloud Storage refuses": {"name_prefix": "my-google"},
    "a word for a flag": {"deletion_protection": "yes"},
    "an engine's file in place of its function": {"engines": {"count": "jobs/word_count.py"}},
    "an address in place of a host": {"http_hosts": ["https://api.example.com/v1"]},
    "an API key in place of its hash": {"api": {"key_hashes": {"ci": "sesame"}}},
}
"""Mistake -> stack values."""


def _realise(**changes: Any) -> Callable[[Path], object]:
    values = stack_values(**changes)
    secrets = {key: values.pop(key) for key in (SIGNING_KEY,) if key in values}
    return lambda folder: realise(values, secrets, stack="test", world_dir=folder)


def _plain_secret(folder: Path) -> None:
    realise(stack_values(), {}, stack="test", world_dir=folder)


def _deletion(folder: Path) -> None:
    realised(folder, deletion_protection="true")
    realised(folder, deletion_protection="true", name_prefix="blue")


def _preview(name: str, text: str) -> Callable[[Path], object]:
    def attempt(folder: Path) -> None:
        (folder / "Pulumi.dev.yaml").write_text(text)
        preview_stack(Console(), name, folder)

    return attempt


def _without_pulumi(folder: Path) -> None:
    with patch.dict(os.environ, {"PATH": str(folder), "XDG_CACHE_HOME": str(folder)}):
        find_pulumi()


def _old_pulumi(folder: Path) -> None:
    old = folder / "pulumi"
    old.write_text("#!/bin/sh\necho v3.100.0\n")
    old.chmod(0o700)
    _without_pulumi(folder)


def _taken_port(_: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        try:
            check_port(port)
        except CommandFailed as error:
            raise CommandFailed(str(error).replace(str(port), "PORT"), error.exit_code) from error


def _silent_api(_: Path) -> None:
    async def ask() -> None:
        async with Client(Endpoint("http://127.0.0.1:1", "sesame")) as client:
            await client.runs(1, None)

    asyncio.run(ask())


OTHERS: Final[Mapping[str, Callable[[Path], object]]] = {
    "the signing key in plain text": _plain_secret,
    "a stack that there is not": _preview("staging", "config: {}"),
    "a stack file that is no YAML": _preview("dev", "config:\n  a: [1\n"),
    "a stack file without values": _preview("dev", "encryptionsalt: v1\n"),
    "a value that is encrypted": _preview("dev", "config:\n  holdfast:image:\n    secure: v1:abc\n"),
    "what holds records is no longer declared": _deletion,
    "a grant that a rule demands is missing": lambda folder: realised(folder, without([INVOKER])),
    "no pulumi": _without_pulumi,
    "an old pulumi": _old_pulumi,
    "half of an address": lambda _: find_endpoint({"HOLDFAST_URL": "https://api.example"}),
    "a port that is taken": _taken_port,
    "an API that does not answer": _silent_api,
    "nothing runs": lambda folder: find_endpoint({}, folder / "endpoint.json"),
}
"""Mistake -> what a person does; it fails."""


def said(attempt: Callable[[Path], object]) -> list[str]:
    """The lines of a failure, the test's folder left out."""
    lines: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory() as folder:
        try:
            attempt(Path(folder))
        except DeploymentFailed as error:
            lines = error.lines
        except (CommandFailed, PulumiMissing) as error:
            lines = (str(error),)
    return [line.replace(folder, "FOLDER").replace(pair("other").public, "KEY") for line in lines]


def mistakes() -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Every mistake, and the attempt that makes it."""
    for name, changes in VALUES.items():
        yield name, _realise(**changes)
    yield from OTHERS.items()


def page() -> str:
    """All messages."""
    return "\n".join("\n".join((f"# {name}", *said(attempt), "")) for name, attempt in mistakes())


@pytest.mark.parametrize(
    ("name", "attempt"), list(mistakes()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_mistake_is_told_in_one_line_for_each_fault(name: str, attempt: Callable[[Path], object]) -> None:
    """The thing, its value, the rule, the way out; nothing secret, and nothing of the program's inside."""
    lines = said(attempt)

    assert f"# {name}\n" + "".join(f"{line}\n" for line in lines) in PAGE.read_text(), lines
    assert lines
    for line in lines:
        assert "\n" not in line
        assert "Traceback" not in line
        assert "sesame" not in line
        assert pair().private not in line


def test_the_page_has_no_message_too_many() -> None:
    headings = [line.removeprefix("# ") for line in PAGE.read_text().splitlines() if line.startswith("# ")]
    assert headings == [name for name, _ in mistakes()]
    assert len(headings) > 30


if __name__ == "__main__":
    PAGE.write_text(page())
