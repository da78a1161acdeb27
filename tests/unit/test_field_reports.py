"""Every field report about deliveries, claims, the executor and deployments has a test that names it.

What a report says is in the test that names it; whether a test covers its report, and the neighbours of its input, only
a reader can tell.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

DELIVERY: Final = (
    "BR-01 BR-02 BR-04 BR-06 BR-07 BR-09 BR-10 BR-11 BR-13 BR-14 BR-15 BR-17 BR-18 BR-20 BR-21 BR-22 BR-24 BR-25 BR-27 "
    "BR-28 BR-29 BR-31"
)
CLAIMS: Final = (
    "BR-33 BR-34 BR-36 BR-38 BR-39 BR-40 BR-42 BR-43 BR-45 BR-46 BR-49 BR-50 BR-52 BR-53 BR-54 BR-55 BR-56 BR-59 BR-60 "
    "BR-62"
)
EXECUTOR: Final = (
    "BR-63 BR-64 BR-65 BR-67 BR-69 BR-71 BR-72 BR-74 BR-107 BR-108 BR-110 BR-111 BR-112 BR-114 BR-115 BR-117"
)
DEPLOYMENT: Final = "BR-118 BR-119 BR-121 BR-122 BR-125 BR-126 BR-128 BR-129 BR-131 BR-133 BR-134 BR-135 BR-136 BR-138"
REPORTS: Final = (*DELIVERY.split(), *CLAIMS.split(), *EXECUTOR.split(), *DEPLOYMENT.split())


def _named() -> set[str]:
    """Ids in the docstrings of tests; a comment, or this list, names nothing."""
    found: set[str] = set()
    for path in ROOT.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.update(re.findall(r"\bBR-\d+\b", ast.get_docstring(node) or ""))
    return found


@pytest.fixture(scope="module")
def named() -> set[str]:
    return _named()


def test_there_are_seventy_two_reports() -> None:
    assert len(set(REPORTS)) == 72


@pytest.mark.parametrize("report", REPORTS)
def test_a_field_report_is_named_by_a_test(named: set[str], report: str) -> None:
    assert report in named
