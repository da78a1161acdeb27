"""The event that every stream sends: about 200 bytes, its payload encoded anew each time."""

from __future__ import annotations

from typing import Final

import msgspec

PAYLOAD: Final = {"text": "x" * 90, "n": 1}
NOW: Final = "2026-01-01T00:00:00.000Z"

_encode: Final = msgspec.json.Encoder().encode


def event(number: int, payload: object) -> bytes:
    """An NDJSON line."""
    fields = {"event_id": f"0123456789ab-{number}", "event_type": "tick", "payload": payload, "timestamp": NOW}
    return _encode(fields) + b"\n"


def event_text(number: int, payload: object) -> str:
    """The same for what wants text, without the end of the line."""
    return event(number, payload)[:-1].decode()
