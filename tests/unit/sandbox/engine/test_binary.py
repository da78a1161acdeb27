"""Which `pulumi` command is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.engine.cli.binary import PulumiMissing, built_binary, find_pulumi, pinned_version, version_of


def command(path: Path, version: str) -> Path:
    """An executable that says a version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def test_the_built_command_is_kept_by_version_outside_the_checkout(tmp_path: Path) -> None:
    assert built_binary() == tmp_path / "cache" / "holdfast" / f"pulumi-{pinned_version()}" / "bin" / "pulumi"


def test_the_built_command_comes_before_the_one_on_path(tmp_path: Path) -> None:
    on_path = command(tmp_path / "path" / "pulumi", "v3.255.0")
    assert find_pulumi() == on_path
    built = command(built_binary(), "v3.274.1")
    assert find_pulumi() == built


def test_a_missing_or_old_command_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(PulumiMissing, match="no pulumi command: run `make pulumi`"):
        find_pulumi()
    command(tmp_path / "path" / "pulumi", "v3.254.9")
    with pytest.raises(PulumiMissing, match=r"is version 3\.254, older than 3\.255: update it or run `make pulumi`"):
        find_pulumi()


def test_a_command_that_says_no_version_has_none(tmp_path: Path) -> None:
    assert version_of(command(tmp_path / "x", "")) == ()
    assert version_of(tmp_path / "absent") == ()
