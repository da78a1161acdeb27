"""`holdfast keys rotate`: a key that signs, for its owner's eyes, and the commands that the operations guide runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from cli.failure import CommandFailed, ExitCode
from cli.key_rotation import make_signing_key
from runtime.contract.settings import job_keys
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID
from runtime.identity.keys import environment_value

GUIDE: Final = Path(__file__).parents[3] / "docs" / "operations" / "keys.md"
NEW: Final = "backend-es256-v2"


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_commands_are_those_of_the_guide(tmp_path: Path) -> None:
    shown = commands(make_signing_key(NEW, DEFAULT_KEY_ID, tmp_path))
    blocks = re.findall(r"^```sh offline\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    at = blocks.index(f"holdfast keys rotate {NEW}\n")
    guide = "".join(blocks[at + 1 : at + 4]).replace(" --skip-preview --yes", "")
    assert shown == commands(guide)
    assert shown.count("pulumi up") == 3


def test_the_key_is_one_that_a_stack_takes_and_only_its_owner_reads(tmp_path: Path) -> None:
    said = make_signing_key("k2", "k1", tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.name == "k2.pem"
    assert file.stat().st_mode & 0o777 == 0o600
    assert job_keys.is_private_key(environment_value(file.read_text()))
    assert not set(file.read_text().splitlines()) & set(said.splitlines()), "the terminal never shows it"


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "k2.pem").write_text("mine")
    with pytest.raises(CommandFailed, match=r"k2\.pem: File exists") as raised:
        make_signing_key("k2", "k1", tmp_path)
    assert raised.value.exit_code is ExitCode.USAGE
    assert (tmp_path / "k2.pem").read_text() == "mine"


@pytest.mark.parametrize(
    ("new", "current", "says"),
    [("../k", "k1", "must be 1 to 128"), ("k2", "$(k)", "must be 1 to 128"), ("k1", "k1", "choose another")],
)
def test_ids_that_would_not_do_are_refused_before_there_is_a_key(
    tmp_path: Path, new: str, current: str, says: str
) -> None:
    with pytest.raises(CommandFailed, match=re.escape(says)):
        make_signing_key(new, current, tmp_path)
    assert list(tmp_path.iterdir()) == []
