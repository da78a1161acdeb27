"""JSON values on their way out: encoded strictly, bounded in size and depth."""

from __future__ import annotations

import json
import math
from typing import Final

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import JSON_DEPTH
from runtime.observability.redaction import redact_text

SEARCHED_CHARACTERS: Final = 64 * 1024
"""Of a text that becomes one line: more than enough to fill it, and never seconds of the loop."""
VALUE_DEPTH: Final = JSON_DEPTH - 8
"""Deepest value that a job may emit or return; the rest of JSON_DEPTH is for the body that carries it."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class ValueRefused(HoldfastError):
    """A value of a job cannot be sent: codes `value_not_json`, `value_too_deep`, `value_too_large`."""

    code = "value_not_json"


def encode(value: object, limit: int, *, depth: int = VALUE_DEPTH) -> bytes:
    """Compact UTF-8 JSON of a value: what cannot be written faithfully is refused, never replaced.

    Args:
        value: what the encoder of the standard library writes; tuples count as lists.
        limit: most bytes.
        depth: deepest nesting.

    Raises:
        ValueRefused: not JSON (NaN, bytes, a cycle, half of a surrogate pair), too deep, or too large.
    """
    try:
        encoded = _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRefused(f"the value is not JSON: {error or type(error).__name__}") from None
    if len(encoded) > limit:
        raise ValueRefused(f"the value takes {len(encoded)} bytes as JSON, at most {limit} fit", code="value_too_large")
    # A value that opens few containers cannot be deep; only then is the walk worth its time.
    if encoded.count(b"[") + encoded.count(b"{") > depth and is_deeper(value, depth):
        raise ValueRefused(f"the value is nested deeper than {depth} levels", code="value_too_deep")
    return encoded


def decode(data: bytes) -> object:
    """The value of strict JSON bytes, as `encode` writes them.

    Raises:
        ValueError: not UTF-8, not JSON, a number that JSON does not have, or nested past the interpreter's limit.
    """
    try:
        value: object = json.loads(data.decode(), parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def is_deeper(value: object, depth: int) -> bool:
    """Whether a value nests more than `depth` containers."""
    todo: list[tuple[object, int]] = [(value, 1)]
    while todo:
        item, level = todo.pop()
        children = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else None
        if children is None:
            continue
        if level > depth:
            return True
        todo.extend((child, level + 1) for child in children)
    return False


def one_line(text: str, limit: int = 500) -> str:
    """Text for an error that a caller may read: one line, no control characters, at most `limit` characters, nothing
    that looks like a secret.
    """
    # Looked through before it is cut, so that no half of a secret is left that nothing recognises.
    text = redact_text(text[:SEARCHED_CHARACTERS])[: 4 * limit]
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is larger than any number that can be kept")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")
