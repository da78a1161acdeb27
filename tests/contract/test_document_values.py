"""Which documents a store takes, and that it gives them back exactly, on every adapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from runtime.contract.limits import DOCUMENT_BYTES
from runtime.ports.documents import (
    Create,
    DocumentExists,
    Documents,
    DocumentTooLarge,
    Key,
    Replace,
    StoreError,
    Value,
)

KEY = Key("values", "one")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


def typed(value: Value) -> object:
    """A value with its types, so that 1, 1.0 and True differ."""
    match value:
        case list():
            return [typed(item) for item in value]
        case dict():
            return {name: typed(item) for name, item in value.items()}
    return type(value), repr(value)


async def round_trip(documents: Documents, data: Mapping[str, Value]) -> dict[str, Value]:
    await documents.commit([Create(KEY, data)])
    document = await documents.get(KEY)
    assert document is not None
    return dict(document.data)


EVERY_TYPE: dict[str, Value] = {
    "null": None,
    "yes": True,
    "no": False,
    "zero": 0,
    "smallest": -(2**63),
    "largest": 2**63 - 1,
    "beyond_double": 2**53 + 1,
    "whole_float": 1.0,
    "negative_zero": -0.0,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "tenth": 0.1,
    "infinite": math.inf,
    "negative_infinite": -math.inf,
    "empty_text": "",
    "text": "naïve – 日本 🚀 \u0000 \\ \" ' \n",
    "empty_bytes": b"",
    "bytes": bytes(range(256)),
    "moment": datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC),
    "before_the_epoch": datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    "first_year": datetime(1, 1, 1, tzinfo=UTC),
    "last_year": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "empty_list": [],
    "list": [1, 1.0, True, None, "x", b"x", {"in": [1, {"deeper": []}]}],
    "empty_map": {},
    "map": {"a": {"b": {"c": [datetime(2026, 1, 1, tzinfo=UTC)]}}, "with.dot": 1, "with`tick": 2, "ä \\": 3},
    "name.with.dots": 1,
    "`quoted\\name`": 2,
    "ünïcode": 3,
    "1starts_with_a_digit": 4,
    "$dollar": "{}",
}


async def test_every_type_comes_back_as_it_went_in(documents: Documents) -> None:
    data = await round_trip(documents, EVERY_TYPE)
    assert typed(data) == typed(EVERY_TYPE)


async def test_nan_comes_back(documents: Documents) -> None:
    value = (await round_trip(documents, {"n": math.nan}))["n"]
    assert isinstance(value, float)
    assert math.isnan(value)


async def test_an_empty_document_is_a_document(documents: Documents) -> None:
    assert await round_trip(documents, {}) == {}


async def test_subclasses_are_stored_as_the_plain_type(documents: Documents) -> None:
    summer = datetime(2026, 7, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    data = await round_trip(documents, {"colour": Colour.RED, "size": Size.BIG, "when": summer, Colour.RED: 1})
    assert typed(data) == typed({"colour": "red", "size": 3, "when": datetime(2026, 7, 1, 10, 0, tzinfo=UTC), "red": 1})


async def test_what_the_caller_changes_afterwards_changes_nothing_in_the_store(documents: Documents) -> None:
    given: dict[str, Any] = {"list": [1], "map": {"a": [1]}}
    read: dict[str, Any] = await round_trip(documents, given)
    given["list"].append(2)
    given["map"]["a"].append(2)
    read["list"].append(3)
    read["map"]["b"] = 3
    document = await documents.get(KEY)
    assert document is not None
    assert document.data == {"list": [1], "map": {"a": [1]}}


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (datetime(2026, 1, 1), "time zone"),  # noqa: DTZ001 - what is refused
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "years 1 to 9999"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ((1, 2), "tuple"),
        ({1, 2}, "set"),
        (bytearray(b"x"), "bytearray"),
        (1j, "complex"),
        ([[1]], "inside a list"),
        ({"": 1}, "not empty"),
        ({"a\0b": 1}, "without NUL"),
        ({"__name__": 1}, "__x__"),
        ({1: 1}, "text"),
    ],
    ids=str,
)
async def test_a_value_that_not_every_store_takes_is_refused_by_each(
    documents: Documents, value: Any, what: str
) -> None:
    with pytest.raises(StoreError, match=what) as caught:
        await documents.commit([Create(KEY, {"field": {"inner": value} if not isinstance(value, list) else value})])
    assert caught.value.code == "invalid_document"
    assert await documents.get(KEY) is None


async def test_the_field_that_the_store_keeps_for_itself_is_refused(documents: Documents) -> None:
    with pytest.raises(StoreError, match="_write"):
        await documents.commit([Create(KEY, {"_write": 1})])


def nested(depth: int) -> Value:
    """Maps and lists inside each other, `depth` of them; a map is outermost."""
    value: Value = {"end": 1} if depth % 2 else [1]
    for level in range(depth - 1):
        value = {"m": value} if (depth + level) % 2 == 0 else [value]
    return value


async def test_twenty_levels_of_maps_and_lists_are_taken_and_no_more(documents: Documents) -> None:
    assert str(nested(20)).count("[") + str(nested(20)).count("{") == 20
    assert await round_trip(documents, {"field": nested(20)}) == {"field": nested(20)}
    with pytest.raises(StoreError, match="deeper than 20"):
        await documents.commit([Create(Key("values", "deep"), {"field": nested(21)})])


def sized(extra: int) -> dict[str, Value]:
    """A document of exactly 1 MiB and `extra` bytes, with the field that the store adds."""
    # Name: 16 + "values" 7 + "one" 4; document 32; `_write` 7 + 8; two fields of one letter, 2 each.
    overhead = 16 + 7 + 4 + 32 + 15 + 4
    return {"a": b"x" * 600_000, "b": b"x" * (DOCUMENT_BYTES - overhead - 600_000 + extra)}


async def test_a_document_of_one_mebibyte_is_taken_and_one_byte_more_is_not(documents: Documents) -> None:
    with pytest.raises(DocumentTooLarge, match="1048577"):
        await documents.commit([Create(KEY, sized(1))])
    assert await documents.get(KEY) is None
    [version] = await documents.commit([Create(KEY, sized(0))], timeout=30)
    [version] = await documents.commit([Replace(KEY, sized(0), version)], timeout=30)
    document = await documents.get(KEY, timeout=30)
    assert document is not None
    assert document.data == sized(0)
    assert document.version == version


@pytest.mark.parametrize("make", [bytes, lambda size: "x" * (size - 1)], ids=["bytes", "text"])
async def test_one_field_may_have_one_mebibyte_less_89_bytes(
    documents: Documents, make: Callable[[int], Value]
) -> None:
    limit = DOCUMENT_BYTES - 89
    with pytest.raises(DocumentTooLarge, match="limit of one field"):
        await documents.commit([Create(KEY, {"a": make(limit + 1)})])
    await documents.commit([Create(KEY, {"a": make(limit)})], timeout=30)


def commit_of_mebibytes(count: int) -> list[Create]:
    return [Create(Key("values", f"{number}"), {"a": b"x" * 1_000_000}) for number in range(count)]


async def test_a_commit_over_ten_mebibytes_is_refused(documents: Documents) -> None:
    with pytest.raises(DocumentTooLarge, match="commit of"):
        await documents.commit(commit_of_mebibytes(11))
    assert await documents.get(Key("values", "0")) is None


@pytest.mark.parametrize("backend", ["memory", "postgres"], indirect=True)
async def test_a_commit_of_little_less_than_ten_mebibytes_is_taken(documents: Documents) -> None:
    """Firestore's emulator takes 4 MiB only."""
    assert len(await documents.commit(commit_of_mebibytes(10), timeout=30)) == 10


async def test_a_document_too_large_keeps_the_other_writes_of_its_commit_away(documents: Documents) -> None:
    with pytest.raises(DocumentTooLarge):
        await documents.commit([Create(Key("values", "small"), {}), Create(KEY, sized(1))])
    assert await documents.get(Key("values", "small")) is None


@pytest.mark.parametrize("name", ["", ".", "..", "__x__", "____", "a/b", "/", "a\0b", "\ud800"], ids=repr)
async def test_ids_that_firestore_or_postgresql_refuse_are_refused(documents: Documents, name: str) -> None:
    """BR-38"""
    for key in (Key("values", name), Key(name, "one")):
        with pytest.raises(StoreError) as written:
            await documents.commit([Create(key, {})])
        with pytest.raises(StoreError) as read:
            await documents.get(key)
        assert {written.value.code, read.value.code} == {"invalid_key"}


@pytest.mark.parametrize("name", ["é" * 750, "a" * 1500], ids=["two bytes each", "ascii"])
async def test_an_id_has_at_most_1500_bytes(documents: Documents, name: str) -> None:
    """BR-38"""
    with pytest.raises(DocumentTooLarge, match="1500"):
        await documents.commit([Create(Key("values", name + "x"), {})])
    await documents.commit([Create(Key("values", name), {"a": 1})])
    document = await documents.get(Key("values", name))
    assert document is not None
    assert document.key.id == name


@pytest.mark.parametrize(
    "name", ["...", "__x", "x__", "a b", " 1001", "%2F", "é日🚀", "a\nb", "'", '"', "\\", "ID", "id"]
)
async def test_every_other_id_is_taken(documents: Documents, name: str) -> None:
    await documents.commit([Create(Key("values", name), {"name": name})])
    with pytest.raises(DocumentExists):
        await documents.commit([Create(Key("values", name), {})])
    document = await documents.get(Key("values", name))
    assert document is not None
    assert (document.key.id, document.data) == (name, {"name": name})
