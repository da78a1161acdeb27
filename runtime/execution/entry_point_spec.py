"""What a run on a Python entry point may define."""

from __future__ import annotations

from collections.abc import Mapping


def check_entry_point(spec: Mapping[str, object]) -> list[tuple[str, str]]:
    """Faults of the definition of such a run: it has none."""
    return [("", "a Python entry point takes no definition; put what it needs into `input`")] if spec else []
