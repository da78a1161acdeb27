"""JSON as it is accepted from a wire: UTF-8, bounded in depth, without what only some parsers accept."""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from runtime.contract import limits
from runtime.contract.errors import HoldfastError

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string, or an unfinished one up to the end: every byte is looked at once, whatever the input."""
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_OPENING: Final = frozenset(b"[{")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonError(HoldfastError):
    """Bytes that are not JSON as accepted here; the text says why and repeats nothing of them."""

    code = "invalid_json"


def parse_json(raw: bytes, *, depth: int = limits.JSON_DEPTH) -> object:
    """The value of a JSON text.

    Refused besides bad syntax: other encodings than UTF-8, nesting over `depth`, NaN and infinities (also as numbers
    too large for a float), a key twice in one object, lone surrogates. Depth is counted before parsing, because the
    parser's own limit is the stack.

    Raises:
        JsonError: in every case.
    """
    # What opens few containers cannot be deep; only then are strings told apart.
    if raw.count(b"[") + raw.count(b"{") > depth and _deeper(raw, depth):
        raise JsonError(f"nested deeper than {depth}")
    try:
        text = raw.decode("utf-8")
        value: object = _DECODER.decode(text)
        if b"\\u" in raw and _SURROGATE.search(raw):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise JsonError("a lone surrogate in a string") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"not JSON at character {error.pos}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise JsonError(f"not acceptable JSON ({type(error).__name__})") from None
    return value


def _deeper(raw: bytes, depth: int) -> bool:
    level = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        level += 1 if bracket in _OPENING else -1
        if level > depth:
            return True
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("repeated key")
    return value


_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_repeats
)
