"""Values as every document store keeps them: plain types, copied, within Firestore's rules, with their size."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from runtime.contract.limits import DOCUMENT_BYTES, DOCUMENT_ID_BYTES
from runtime.ports.documents import DocumentTooLarge, StoreError, Value

FIELD_BYTES: Final = DOCUMENT_BYTES - 89
"""Firestore's limit for the value of one field."""
DEPTH: Final = 20
"""Firestore's limit for maps and lists inside each other."""
RESERVED: Final = re.compile(r"__.*__", re.DOTALL)
"""Names that Firestore keeps for itself."""

_INT64: Final = 2**63
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*").fullmatch
"""Names that need no further look, up to so many characters."""
_PLAIN_CHARACTERS: Final = 100
_KNOWN_NAMES: Final = 1024
"""Names that are remembered as such: a program writes the same few fields all its life."""
_SHORT: Final = 10_000
"""Characters of a text that is within the limit of a field in any case."""


class _Unfit(Exception):
    """What is wrong with a value; the way to it is added while the error rises, so that good values pay nothing."""

    def __init__(self, why: str, error: type[StoreError] = StoreError) -> None:
        self.why = why
        self.error = error
        self.path = ""

    def at(self, where: str) -> StoreError:
        message = f"{where}{self.path}: {self.why}"
        return self.error(message) if self.error is DocumentTooLarge else self.error(message, code="invalid_document")


def plain_fields(data: Mapping[str, Value], where: str) -> tuple[dict[str, Value], int]:
    """A deep copy of a document's fields, and their size by Firestore's formula.

    Args:
        data: field name to value.
        where: the document, for messages.

    Raises:
        DocumentTooLarge: one field is over 1 MiB less 89 bytes, or a name over 1500 bytes.
        StoreError: `invalid_document`: a type, name, depth or nesting that Firestore refuses.
    """
    try:
        return _map(data, 0)
    except _Unfit as unfit:
        raise unfit.at(where) from None


def plain_value(value: Value, where: str) -> Value:
    """One value, copied and checked in the same way.

    Raises:
        DocumentTooLarge, StoreError: as plain_fields.
    """
    try:
        return _value(value, 1)[0]
    except _Unfit as unfit:
        raise unfit.at(where) from None


def text_bytes(text: str) -> int | None:
    """Length of a text in UTF-8; None where a lone surrogate keeps it from being Unicode."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _value(value: Value, depth: int) -> tuple[Value, int]:
    # By exact type first: documents are many small values, and the long way is for subclasses only.
    kind = type(value)
    if kind is str:
        return value, _text_size(value)  # type: ignore[arg-type]  # mypy does not narrow by a variable
    if value is None or kind is bool:
        return value, 1
    if kind is int:
        return _integer(value), 8  # type: ignore[arg-type]  # as above
    if kind is dict:
        return _map(value, depth)  # type: ignore[arg-type]  # as above
    if isinstance(value, str):
        return str.__str__(value), _text_size(value)
    if isinstance(value, int):
        return _integer(value), 8
    if isinstance(value, float):
        return float(value), 8
    if isinstance(value, bytes):
        return bytes(value), len(value)
    if isinstance(value, datetime):
        return _moment(value), 8
    if isinstance(value, list):
        return _list(value, depth)
    if isinstance(value, dict):
        return _map(value, depth)
    raise _Unfit(f"a value of type {kind.__name__} cannot be stored")


def _integer(value: int) -> int:
    if not -_INT64 <= value < _INT64:
        raise _Unfit("an integer of more than 64 bits is refused")
    return int(value)


def _map(data: Mapping[Any, Value], depth: int) -> tuple[dict[str, Value], int]:
    _check_depth(depth)
    copy: dict[str, Value] = {}
    total = 0
    for name, value in data.items():
        try:
            # Every document passes here on its way: plain names and short texts go without a call.
            if type(name) is str and len(name) <= _PLAIN_CHARACTERS and _is_plain(name):
                total += len(name) + 1
            else:
                total += _name_size(name)
                name = str.__str__(name)  # noqa: PLW2901 - a subclass's text
            if type(value) is str and len(value) <= _SHORT and value.isascii():
                copy[name] = value
                total += len(value) + 1
                continue
            copy[name], size = _value(value, depth + 1)
            if depth == 0:
                _check_field_size(size)
        except _Unfit as unfit:
            unfit.path = f"[{str(name)[:80]!r}]{unfit.path}"
            raise
        total += size
    return copy, total


@functools.lru_cache(_KNOWN_NAMES)
def _is_plain(name: str) -> bool:
    return _PLAIN_NAME(name) is not None


def _list(values: list[Value], depth: int) -> tuple[list[Value], int]:
    _check_depth(depth)
    copy: list[Value] = []
    total = 0
    for position, item in enumerate(values):
        try:
            _check_item(item)
            value, size = _value(item, depth + 1)
        except _Unfit as unfit:
            unfit.path = f"[{position}]{unfit.path}"
            raise
        copy.append(value)
        total += size
    return copy, total


def _check_depth(depth: int) -> None:
    if depth > DEPTH:
        raise _Unfit(f"maps and lists nest deeper than {DEPTH}")


def _check_field_size(size: int) -> None:
    if size > FIELD_BYTES:
        raise _Unfit(f"{size} bytes, the limit of one field is {FIELD_BYTES}", DocumentTooLarge)


def _check_item(item: Value) -> None:
    if isinstance(item, list):
        raise _Unfit("a list directly inside a list is refused; put a map between")


def _name_size(name: object) -> int:
    if not isinstance(name, str) or not name or "\0" in name or (name[0] == "_" and RESERVED.fullmatch(name)):
        raise _Unfit("a field name is text, not empty, without NUL, and not '__x__'")
    size = _text_size(name)
    if size > DOCUMENT_ID_BYTES:
        raise _Unfit(f"a field name has at most {DOCUMENT_ID_BYTES - 1} bytes", DocumentTooLarge)
    return size


def _text_size(text: str) -> int:
    size = text_bytes(text)
    if size is None:
        raise _Unfit("text with a lone surrogate is not Unicode")
    return size + 1


def _moment(value: datetime) -> datetime:
    if value.tzinfo is UTC and type(value) is datetime:
        return value
    if value.tzinfo is None:
        raise _Unfit("a datetime without a time zone is refused")
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise _Unfit("a datetime outside the years 1 to 9999 is refused") from None
    # Built anew: subclasses carry nanoseconds that not every store keeps.
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=UTC)
