"""Firestore's order of values as bytes: a comparison of keys is a comparison of values.

Null < booleans < NaN < numbers < times < texts (by UTF-8 bytes) < bytes < lists < maps; integers and floats are one
type, so that 1 equals 1.0. Lists and maps are in their place among the types and equal among themselves: no service
orders by one, and filters on them are refused.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from typing import Final

from runtime.ports.documents import Value

INDEXED_BYTES: Final = 1500
"""Firestore indexes this much of a value: longer ones are compared by their start, and refused in a filter."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL, _BOOL, _NAN, _NUMBER, _TIME, _TEXT, _BYTES, _LIST, _MAP = (bytes([tag]) for tag in range(0x10, 0xA0, 0x10))


def order_key(value: Value) -> bytes:
    """The key of a plain value; its first byte is the type."""
    match value:
        case None:
            return _NULL
        case bool():
            return _BOOL + bytes([value])
        case int():
            return _number(float(value), value)
        case float():
            return _NAN if math.isnan(value) else _number(value, None)
        case datetime():
            return _TIME + struct.pack(">Q", (value - _EPOCH) // timedelta(microseconds=1) + 2**63)
        case str():
            return _TEXT + _start(value.encode(), INDEXED_BYTES - 1)
        case bytes():
            return _BYTES + _start(value, INDEXED_BYTES)
        case list():
            return _LIST
        case _:
            return _MAP


def type_bounds(key: bytes) -> tuple[bytes, bytes]:
    """The keys between which all values of the same type lie, the second one excluded."""
    return key[:1], bytes([key[0] + 1])


def _number(nearest: float, exact: int | None) -> bytes:
    # The nearest double decides; only integers that share one differ from it, by at most half a step (2**9).
    bits = struct.unpack(">Q", struct.pack(">d", nearest + 0.0))[0]
    ordered = bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63
    rest = 0 if exact is None else exact - int(nearest)
    return _NUMBER + struct.pack(">QH", ordered, rest + 2**15)


def _start(raw: bytes, limit: int) -> bytes:
    # A text counts one byte more than it has. What was cut comes after what just fits.
    return raw if len(raw) <= limit else raw[:limit] + b"\0"
