"""Payloads of events, encoded as `values.encode` does, and most of them twenty times as fast."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.values import ValueRefused, encode

_encoder: Final = msgspec.json.Encoder()
_TEXT: Final = frozenset({str})
_EXACT: Final = frozenset({str, int, bool, type(None)})
"""What both encoders write alike. This one writes NaN as null and bytes as text, which may never be sent, and the
digits of a float in another way."""


def encode_payload(value: object) -> bytes:
    """Compact UTF-8 JSON of an event's payload, at most EVENT_BYTES.

    Raises:
        ValueRefused: see `values.encode`.
    """
    encoded = _flat(value)
    if encoded is None:
        return encode(value, EVENT_BYTES)
    if len(encoded) > EVENT_BYTES:
        raise ValueRefused(
            f"the value takes {len(encoded)} bytes as JSON, at most {EVENT_BYTES} fit", code="value_too_large"
        )
    return encoded


def _flat(value: object) -> bytes | None:
    """An object of texts, whole numbers, booleans and nulls, as most payloads are; None for everything else."""
    if type(value) is not dict or not _TEXT.issuperset(map(type, value)):
        return None
    if not _EXACT.issuperset(map(type, value.values())):
        return None
    try:
        return _encoder.encode(value)
    except (ValueError, OverflowError):  # half of a surrogate pair, a number of more than 64 bits
        return None
