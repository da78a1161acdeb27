"""Refuses files and functions that have outgrown one noun.

    python checks/sizes.py [FOLDER ...]

A file has at most 400 lines, a function at most 50. An exception stands in EXCEPTIONS with its reason, and is itself
refused once it is no longer needed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILE_LINES: Final = 400
FUNCTION_LINES: Final = 50
FOLDERS: Final = ("runtime", "infra", "policies", "sandbox", "cli", "jobs", "tests", "bench", "checks")

EXCEPTIONS: Final[dict[str, str]] = {}
"""`path` or `path:function` -> why it may be larger."""


def oversize(path: Path) -> Iterator[tuple[str, int, int]]:
    """Every (place, lines, ceiling) of one file that is over its ceiling."""
    text = path.read_text()
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield str(path), lines, FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.name}", length, FUNCTION_LINES


def main(folders: list[str]) -> int:
    """Prints what is over size; 0 where nothing is."""
    found: set[str] = set()
    faults = []
    for folder in folders or FOLDERS:
        for path in sorted(Path(folder).rglob("*.py")):
            for place, lines, ceiling in oversize(path):
                found.add(place)
                if place not in EXCEPTIONS:
                    faults.append(f"{place}: {lines} lines, at most {ceiling}: which second noun lives in it?")
    faults += [f"{place}: exception no longer needed" for place in EXCEPTIONS if not folders and place not in found]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
