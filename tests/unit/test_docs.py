"""Documents name files that exist, and link to each other correctly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
PATH = re.compile(r"`((?:runtime|infra|sandbox|cli|jobs|bench|tests|docs|checks|policies)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    named = {ROOT / name for name in PATH.findall(text)} | {document.parent / name for name in LINK.findall(text)}
    missing = sorted(str(path) for path in named if not path.exists())
    assert missing == []
