"""JSON as it is accepted, measured and hashed: strict on the way in, RFC 8785 where bytes must agree."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import rfc8785

from runtime.api.problem import FieldFault, Problem
from runtime.contract.limits import JSON_DEPTH

EXACT_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8785 section 3.2.2.3, RFC 7493 section 2.2)."""
IN_LOOP_BYTES: Final = 16 * 1024
"""Largest body that is read on the event loop; measured: about 3 ms to canonicalise."""

T = TypeVar("T")


class AmbiguousObject(dict[str, object]):
    """An object in which a name stood twice: readers would disagree on its value."""

    repeated: str = ""


def decode(body: bytes) -> object:
    """The value of a body: strict UTF-8, one JSON value. Numbers are judged by `faults_of`, which knows their place.

    Raises:
        Problem: 400 `invalid_json`.
    """
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _invalid(f"it is nested deeper than {JSON_DEPTH} levels") from None
    except ValueError:
        raise _invalid("it holds a number with too many digits") from None


def encode(value: object) -> bytes:
    """Compact UTF-8 JSON of a value without faults."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def canonical(value: object) -> bytes:
    """The RFC 8785 form of a value without faults."""
    prepared: Any = value
    return rfc8785.dumps(prepared)


def sha256_hex(data: bytes) -> str:
    """SHA-256 in lower case hex."""
    return hashlib.sha256(data).hexdigest()


def faults_of(value: object, *, exact: bool) -> list[FieldFault]:
    """What RFC 8785 and the limits refuse in a value, each with its place.

    Args:
        value: as `decode` gives it.
        exact: whether integers beyond 2^53 - 1 are faults; they are where the value is hashed.
    """
    faults: list[FieldFault] = []
    todo: list[tuple[object, _Path]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        fault = _fault(item, len(path), exact=exact)
        if fault is not None:
            faults.append(FieldFault(pointer(path), fault))
        elif isinstance(item, dict):
            todo.extend((child, (*path, name)) for name, child in reversed(item.items()))
        elif isinstance(item, list):
            todo.extend((item[index], (*path, index)) for index in range(len(item) - 1, -1, -1))
    return faults


def pointer(path: Sequence[str | int]) -> str:
    """The JSON pointer of a path, safe to send whatever the names hold."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{part}" for part in parts).encode("utf-8", "backslashreplace").decode()


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Runs CPU work on a body of `size` bytes: large ones in a thread, so that the loop keeps turning."""
    return work() if size <= IN_LOOP_BYTES else await asyncio.to_thread(work)


_Path = tuple[str | int, ...]


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    ambiguous = AmbiguousObject(members)
    ambiguous.repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
    return ambiguous


def _fault(item: object, depth: int, *, exact: bool) -> str | None:
    if isinstance(item, str):
        return None if _is_text(item) else "holds half of a surrogate pair, which is no text"
    if isinstance(item, bool) or item is None:
        return None
    if isinstance(item, int):
        inexact = exact and abs(item) > EXACT_INTEGER
        return (
            f"is an integer beyond {EXACT_INTEGER}, which not every reader keeps; send it as a string"
            if inexact
            else None
        )
    if isinstance(item, float):
        return None if math.isfinite(item) else "is not a finite number; JSON has none other"
    if depth >= JSON_DEPTH:
        return f"is nested deeper than {JSON_DEPTH} levels"
    if isinstance(item, AmbiguousObject):
        return f"has the name {item.repeated!a} twice"
    if isinstance(item, dict) and not all(map(_is_text, item)):
        return "has a name with half of a surrogate pair"
    return None


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(why: str) -> Problem:
    return Problem(400, "invalid_json", f"the body must be one JSON value in UTF-8, but {why}")
