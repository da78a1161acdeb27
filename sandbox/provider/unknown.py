"""Values that a preview does not know yet, as the real engine sends them."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""A text, or a value of no declared kind; also what the provider answers."""
_MARKS: Final = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
"""Also boolean, number, list and mapping; from `plugin/rpc.go` of the engine's SDK."""


def is_unknown(value: object) -> bool:
    """Whether a value is only the promise of one."""
    return isinstance(value, str) and value in _MARKS
