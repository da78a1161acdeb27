"""Payloads of events, encoded as `values.encode` does, and most of them twenty times as fast."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.values import encode
from runtime.observability.redaction import redact_credentials

_encode: Final = msgspec.json.Encoder().encode
_EXACT: Final = frozenset({str, int, bool, type(None)})
"""What both encoders write alike. This one writes NaN as null and bytes as text, which may never be sent, and the
digits of a float in another way."""


def encode_payload(value: object) -> bytes:
    """Compact UTF-8 JSON of an event's payload, at most EVENT_BYTES. Every event of every engine comes by here:
    what it says in words holds no credential when it leaves; its other members are the job's data.

    Raises:
        ValueRefused: see `values.encode`.
    """
    if type(value) is dict and ("message" in value or "error" in value):
        value = _without_credentials(value)
    if type(value) is dict:  # of texts, whole numbers, booleans and nulls, as most payloads are
        for name, member in value.items():
            if type(name) is not str or type(member) not in _EXACT:
                break
        else:
            try:
                encoded = _encode(value)
            except (ValueError, OverflowError):  # half of a surrogate pair, a number of more than 64 bits
                encoded = b""
            if 0 < len(encoded) <= EVENT_BYTES:
                return encoded
    return encode(value, EVENT_BYTES)


def _without_credentials(said: dict[object, object]) -> dict[object, object]:
    for name in ("message", "error"):
        text = said.get(name)
        if type(text) is str:
            masked = redact_credentials(text)
            if masked is not text:
                said = {**said, name: masked}
    return said
