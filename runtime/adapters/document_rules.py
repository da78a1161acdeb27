"""What Firestore would refuse, refused by every adapter before anything is sent.

Limits and formulas are those of Firestore's documentation, "Usage and limits" and "Storage size calculations".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from runtime.contract.limits import COMMIT_WRITES, DOCUMENT_BYTES, DOCUMENT_ID_BYTES
from runtime.ports.documents import Delete, DocumentTooLarge, Key, StoreError, Value, Write

WRITE_FIELD: Final = "_write"
"""Top-level field that adapters keep for themselves; see FirestoreDocuments."""

FIELD_BYTES: Final = DOCUMENT_BYTES - 89
"""Firestore's limit for the value of one field."""
DEPTH: Final = 20
"""Firestore's limit for maps and arrays inside each other."""

_INVALID: Final = "invalid_document"
_RESERVED = re.compile(r"__.*__", re.DOTALL)
_INT64 = range(-(2**63), 2**63)
_DOCUMENT_OVERHEAD: Final = 32
_NAME_OVERHEAD: Final = 16
_WRITE_FIELD_BYTES: Final = len(WRITE_FIELD) + 1 + 8
"""Counted for every document, so that each adapter has the same limit."""


def check_key(key: Key) -> None:
    """Refuses ids that Firestore does not take, and NUL, which PostgreSQL does not take.

    Raises:
        DocumentTooLarge: an id is over 1500 bytes.
        StoreError: `invalid_key`.
    """
    for what, name in (("collection", key.collection), ("document id", key.id)):
        if not name or "/" in name or "\0" in name or name in {".", ".."} or _RESERVED.fullmatch(name):
            raise StoreError(
                f"{what} {name[:80]!r} is refused: not empty, no '/', no NUL, not '.', '..' or '__x__'",
                code="invalid_key",
            )
        size = _text_bytes(name, what, code="invalid_key")
        if size > DOCUMENT_ID_BYTES:
            raise DocumentTooLarge(f"{what} {name[:80]!r}... has {size} bytes, the limit is {DOCUMENT_ID_BYTES}")


def check_writes(writes: Sequence[Write]) -> None:
    """Refuses a commit of no writes, of more than 500, or with two writes of one document.

    Raises:
        StoreError: `invalid_commit`; also what check_key raises.
    """
    if not 1 <= len(writes) <= COMMIT_WRITES:
        raise StoreError(f"a commit takes 1 to {COMMIT_WRITES} writes, not {len(writes)}", code="invalid_commit")
    seen: set[Key] = set()
    for write in writes:
        check_key(write.key)
        if write.key in seen:
            raise StoreError(f"a commit writes {write.key} twice; merge the two writes", code="invalid_commit")
        seen.add(write.key)


def stored_data(write: Write, prefix: str) -> dict[str, Value]:
    """A deep copy of a write's data in plain types, checked; empty for a Delete.

    Args:
        write: what is to be written.
        prefix: of the collection; it counts towards the document's size.

    Raises:
        DocumentTooLarge: over Firestore's 1 MiB, or one field over 1 MiB less 89 bytes.
        StoreError: `invalid_document`: a type, name, depth or nesting that Firestore refuses.
    """
    if isinstance(write, Delete):
        return {}
    if WRITE_FIELD in write.data:
        raise StoreError(f"{write.key}: the field {WRITE_FIELD!r} is kept for the store", code=_INVALID)
    data, size = _map(write.data, str(write.key), depth=0)
    names = len((prefix + write.key.collection).encode()) + len(write.key.id.encode()) + 2
    size += names + _NAME_OVERHEAD + _DOCUMENT_OVERHEAD + _WRITE_FIELD_BYTES
    if size > DOCUMENT_BYTES:
        raise DocumentTooLarge(f"{write.key} has {size} bytes, the limit is {DOCUMENT_BYTES}; keep the bulk elsewhere")
    return data


def plain_value(value: Value, where: str) -> Value:
    """One value in plain types, checked as a stored one.

    Raises:
        StoreError: `invalid_document`.
    """
    return _value(value, where, 1)[0]


def _map(data: Mapping[Any, Value], where: str, *, depth: int) -> tuple[dict[str, Value], int]:
    copy: dict[str, Value] = {}
    total = 0
    for name, value in data.items():
        if not isinstance(name, str) or not name or "\0" in name or _RESERVED.fullmatch(name):
            raise StoreError(
                f"{where}: field name {name!r} is refused: text, not empty, no NUL, not '__x__'",
                code=_INVALID,
            )
        path = f"{where}.{name}"
        name_size = _text_bytes(name, path) + 1
        if name_size > DOCUMENT_ID_BYTES:
            raise DocumentTooLarge(f"{where}: a field name has {name_size} bytes, the limit is {DOCUMENT_ID_BYTES}")
        copy[str.__str__(name)], size = _value(value, path, depth + 1)
        if depth == 0 and size > FIELD_BYTES:
            raise DocumentTooLarge(f"{path} has {size} bytes, the limit of one field is {FIELD_BYTES}")
        total += name_size + size
    return copy, total


def _list(values: list[Value], where: str, depth: int) -> tuple[list[Value], int]:
    copy: list[Value] = []
    total = 0
    for position, item in enumerate(values):
        path = f"{where}[{position}]"
        if isinstance(item, list):
            raise StoreError(f"{path}: a list directly inside a list is refused; put a map between", code=_INVALID)
        value, size = _value(item, path, depth + 1)
        copy.append(value)
        total += size
    return copy, total


def _value(value: Value, where: str, depth: int) -> tuple[Value, int]:
    match value:
        case None:
            return None, 1
        case bool():
            return value, 1
        case str():
            return str.__str__(value), _text_bytes(value, where) + 1
        case int():
            if value not in _INT64:
                raise StoreError(f"{where}: an integer of more than 64 bits is refused", code=_INVALID)
            return int(value), 8
        case float():
            return float(value), 8
        case bytes():
            return bytes(value), len(value)
        case datetime():
            return _moment(value, where), 8
        case list() | dict() if depth > DEPTH:
            raise StoreError(f"{where}: maps and lists nest deeper than {DEPTH}", code=_INVALID)
        case list():
            return _list(value, where, depth)
        case dict():
            return _map(value, where, depth=depth)
    raise StoreError(f"{where}: a value of type {type(value).__name__} cannot be stored", code=_INVALID)


def _moment(value: datetime, where: str) -> datetime:
    if value.tzinfo is None:
        raise StoreError(f"{where}: a datetime without a time zone is refused", code=_INVALID)
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise StoreError(f"{where}: a datetime outside the years 1 to 9999 is refused", code=_INVALID) from None
    # Built anew: subclasses carry nanoseconds that not every store keeps.
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=UTC)


def _text_bytes(text: str, where: str, *, code: str = _INVALID) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise StoreError(f"{where}: text with a lone surrogate is not Unicode", code=code) from None
