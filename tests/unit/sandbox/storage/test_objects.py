"""Objects as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.storage.objects import ObjectFiles, UnwritableObject


def test_an_object_is_a_file_of_its_bucket_that_only_the_owner_reads(tmp_path: Path) -> None:
    written = ObjectFiles(tmp_path).create("letters", "execution/2026-01-01/a.avro", b"body")

    assert written == tmp_path / "storage/letters/execution/2026-01-01/a.avro"
    assert written.read_bytes() == b"body"
    assert written.stat().st_mode & 0o077 == 0
    assert list(tmp_path.rglob(".partial-*")) == []


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/passwd", "a//b", "a/", "", "a/./b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """BR-79: a name of an object is no path."""
    with pytest.raises(UnwritableObject, match="cannot be a file here"):
        ObjectFiles(tmp_path).create("letters", name, b"")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    files = ObjectFiles(tmp_path)
    files.create("letters", "a", b"")
    with pytest.raises(UnwritableObject, match="cannot be written"):
        files.create("letters", "a/b", b"")
    assert sorted(path.name for path in (tmp_path / "storage").rglob("*")) == ["a", "letters"]
