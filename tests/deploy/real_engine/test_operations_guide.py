"""The commands of the operations guide: those marked offline run in order, the others are listed with their reason.

They run as a person types them, with the plain `pulumi` command, which finds the language host beside it and runs
`infra/__main__.py` with the project's own environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from sandbox.engine.pulumi_home import PulumiHome
from sandbox.world import World
from tests.support.real_engine import ROOT, binary, values_of

GUIDE: Final = ROOT / "docs" / "operations"
INDEX: Final = ROOT / "docs" / "operations.md"
ORDER: Final = ("first-deployment", "upgrade", "keys", "take-down")
"""Pages with commands that run offline, in the order of a stack's life."""
FENCE: Final = re.compile(r"^```sh (?P<kind>\w+)\n(?P<commands>.*?)^```$", re.MULTILINE | re.DOTALL)

CLOUD: Final = {
    "gcloud ": "asks Google Cloud",
    "docker ": "builds, or fills a registry of the project",
    'export PATH="$(dirname "$(make pulumi': "runs before all tests of the engine",
    "pulumi login gs://": "the state of the test is in a folder",
    "pulumi stack init dev --secrets-provider=": "the key is in Cloud KMS; the test's stack has a passphrase",
    "HOLDFAST_URL=": "calls the deployed API; tests of the command run it against the local stack",
    "holdfast dead-letters ": "asks the deployed API for letters; tests of the command run it against the local stack",
}
"""Beginning of a command -> why it does not run here."""


COSTLY: Final = ("pulumi preview", "pulumi up")


@dataclass(frozen=True)
class Command:
    page: str
    kind: str
    text: str


def commands(page: Path) -> Iterator[Command]:
    for fence in FENCE.finditer(page.read_text()):
        for line in fence["commands"].splitlines():
            yield Command(page.stem, fence["kind"], line)


EVERY: Final = [command for page in (INDEX, *sorted(GUIDE.glob("*.md"))) for command in commands(page)]


def test_every_block_of_commands_says_where_it_runs() -> None:
    fences = [line for page in (INDEX, *GUIDE.glob("*.md")) for line in page.read_text().splitlines() if "```" in line]
    assert set(fences) == {"```", "```sh offline", "```sh cloud", "```yaml"}
    assert {command.page for command in EVERY if command.kind == "offline"} == {"operations", *ORDER}


def test_what_needs_a_cloud_is_listed_with_its_reason_and_nothing_else_is() -> None:
    needing = {command.text: [start for start in CLOUD if command.text.startswith(start)] for command in EVERY}
    wrong = {text for text, starts in needing.items() if len(starts) > 1}
    unlisted = {command.text for command in EVERY if (command.kind == "cloud") != bool(needing[command.text])}

    assert wrong == set()
    assert unlisted == set()
    assert {start for starts in needing.values() for start in starts} == set(CLOUD)


@pytest.mark.timeout(400)
def test_the_guide_takes_a_stack_from_nothing_to_nothing(tmp_path: Path) -> None:
    values = values_of("dev")
    home = PulumiHome(tmp_path / "home")
    home.prepare(
        "holdfast",
        World(values["gcp:project"], values["holdfast:project_number"], values["gcp:region"], home.world_dir),
    )
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        shutil.copy(ROOT / name, checkout)
    for name in ("infra", "policies", ".venv"):
        (checkout / name).symlink_to(ROOT / name)
    pages = ["operations", *ORDER]
    listed = [command.text for page in pages for command in EVERY if (command.page, command.kind) == (page, "offline")]
    # What costs seconds runs where it stands first: its later places differ in nothing but the values before them.
    run = [text for at, text in enumerate(listed) if not text.startswith(COSTLY) or text not in listed[:at]]

    command = binary()
    done = subprocess.run(
        ["sh", "-eux", "-c", "\n".join(["pulumi stack init dev", *run])],
        cwd=checkout,
        env={**os.environ, **home.environment(), "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    world = World.load(home.world_dir)
    assert world is not None
    assert len(world) == 0
    assert sorted(path.name for path in checkout.iterdir() if not path.is_symlink()) == ["Pulumi.yaml"]
