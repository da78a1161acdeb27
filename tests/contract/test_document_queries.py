"""Queries of the document port, on every adapter; the order and equality of values are Firestore's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from runtime.contract.names import INDEXES, RUN_EVENTS, RUNS
from runtime.ports.documents import (
    Create,
    Delete,
    Documents,
    Filter,
    IndexMissing,
    Key,
    Operator,
    Query,
    Replace,
    StoreError,
    StoreUnavailable,
    Value,
)
from tests.contract.conftest import OpenDocuments

C = "things"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def fill(documents: Documents, rows: Mapping[str, Mapping[str, Value]], collection: str = C) -> None:
    await documents.commit([Create(Key(collection, id_), data) for id_, data in rows.items()])


async def ids(documents: Documents, query: Query) -> list[str]:
    return [document.key.id for document in await documents.query(query)]


def where(field: str, operator: Operator, value: Value) -> Sequence[Filter]:
    return [Filter(field, operator, value)]


async def test_a_query_without_conditions_gives_the_collection_by_id(documents: Documents) -> None:
    await fill(documents, {"b": {"n": 1}, "a": {"n": 2}, "B": {"n": 3}, "é": {}, "aa": {}})
    await fill(documents, {"other": {}}, "others")
    assert await ids(documents, Query(C)) == ["B", "a", "aa", "b", "é"]


async def test_a_query_of_an_empty_collection_gives_nothing(documents: Documents) -> None:
    assert await documents.query(Query("nothing")) == []


async def test_documents_of_a_query_carry_data_version_and_store_times(documents: Documents) -> None:
    [version] = await documents.commit([Create(Key(C, "a"), {"n": 1, "list": [1]})])
    [found] = await documents.query(Query(C))
    single = await documents.get(Key(C, "a"))
    assert single is not None
    assert (found.key, found.data, found.version) == (Key(C, "a"), {"n": 1, "list": [1]}, version)
    assert found.updated_at == single.updated_at
    assert timedelta(0) <= found.age < timedelta(minutes=1)


async def test_a_document_of_a_query_can_be_replaced_with_its_version(documents: Documents) -> None:
    await fill(documents, {"a": {"n": 1}})
    [found] = await documents.query(Query(C))
    await documents.commit([Replace(found.key, {"n": 2}, found.version)])
    assert await ids(documents, Query(C, where("n", Operator.EQUAL, 2))) == ["a"]
    assert await ids(documents, Query(C, where("n", Operator.EQUAL, 1))) == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        7,
        -(2**63),
        2**63 - 1,
        1.5,
        "",
        "x",
        "naïve 🚀",
        "it's",
        "\\",
        "a\0b",
        b"",
        b"\x00\xff",
        NOON,
    ],
    ids=repr,
)
async def test_equality_finds_the_value_and_nothing_else(documents: Documents, value: Value) -> None:
    others: list[Value] = ["other", 8, value is False, NOON + timedelta(microseconds=1), b"y"]
    rows: dict[str, Mapping[str, Value]] = {f"other{i}": {"field": other} for i, other in enumerate(others)}
    await fill(documents, {"a": {"field": value}, "b": {"field": value}, "missing": {"another": value}, **rows})
    assert await ids(documents, Query(C, where("field", Operator.EQUAL, value))) == ["a", "b"]


async def test_integers_and_floats_are_equal_where_their_values_are(documents: Documents) -> None:
    await fill(documents, {"int": {"n": 1}, "float": {"n": 1.0}, "bool": {"n": True}, "text": {"n": "1"}})
    for one in (1, 1.0):
        assert await ids(documents, Query(C, where("n", Operator.EQUAL, one))) == ["float", "int"]


async def test_nan_is_found_by_nan_and_by_no_range(documents: Documents) -> None:
    await fill(documents, {"nan": {"n": math.nan}, "one": {"n": 1}})
    assert await ids(documents, Query(C, where("n", Operator.EQUAL, math.nan))) == ["nan"]
    assert await ids(documents, Query(C, where("n", Operator.LESS, 5), order_by="n")) == ["one"]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (Operator.LESS, ["a"]),
        (Operator.LESS_OR_EQUAL, ["a", "b"]),
        (Operator.GREATER, ["c"]),
        (Operator.GREATER_OR_EQUAL, ["b", "c"]),
    ],
)
@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 3),
        (-1.5, 0.0, 1e300),
        (2**53, 2**53 + 1, 2**53 + 2),
        (-(2**63), -(2**63) + 1, 2**63 - 1),
        ("a", "b", "c"),
        ("Z", "a", "é"),
        (b"\x00", b"\x00\x00", b"\xff"),
        (NOON - timedelta(microseconds=1), NOON, NOON + timedelta(days=1)),
    ],
    ids=["int", "float", "beyond double", "int64", "text", "text by bytes", "bytes", "time"],
)
async def test_a_range_compares_within_its_type_only(
    documents: Documents, values: tuple[Value, Value, Value], operator: Operator, expected: list[str]
) -> None:
    kinds: list[Value] = [None, True, 4, "m", b"m", NOON, [], {}]
    strangers: dict[str, Mapping[str, Value]] = {
        f"stranger{position}": {"v": stranger}
        for position, stranger in enumerate(kinds)
        if type(stranger) is not type(values[0]) and not (type(stranger) is int and type(values[0]) is float)
    }
    await fill(documents, {"a": {"v": values[0]}, "b": {"v": values[1]}, "c": {"v": values[2]}, **strangers})
    await fill(documents, {"missing": {"w": values[1]}})
    assert await ids(documents, Query(C, where("v", operator, values[1]), order_by="v")) == expected


async def test_two_bounds_make_a_window_in_either_direction(documents: Documents) -> None:
    await fill(documents, {f"d{number}": {"n": number} for number in range(10)})
    window = [Filter("n", Operator.GREATER_OR_EQUAL, 3), Filter("n", Operator.LESS, 6)]
    assert await ids(documents, Query(C, window, order_by="n")) == ["d3", "d4", "d5"]
    assert await ids(documents, Query(C, window, order_by="n", descending=True)) == ["d5", "d4", "d3"]
    assert await ids(documents, Query(C, window, order_by="n", descending=True, limit=2)) == ["d5", "d4"]


ORDERED: list[Value] = [
    None, False, True, math.nan, -math.inf, -(2**63), -1.5, -1, 0, 5e-324, 1, 1.5, 2**53,
    2**53 + 1, 2**63 - 1, math.inf,
    datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC), NOON, NOON + timedelta(microseconds=1),
    "", "\0", "A", "Z", "a", "a\0", "aa", "b", "é", "日", "🚀", b"", b"\x00", b"a", b"\xff", [], {},
]  # fmt: skip


async def test_values_of_all_types_are_in_firestores_order(documents: Documents) -> None:
    rows: dict[str, Mapping[str, Value]] = {f"{-position % 100:02}": {"v": v} for position, v in enumerate(ORDERED)}
    await fill(documents, rows)
    expected = list(rows)
    assert await ids(documents, Query(C, order_by="v", limit=1000)) == expected
    assert await ids(documents, Query(C, order_by="v", descending=True, limit=1000)) == expected[::-1]


async def test_equal_values_are_ordered_by_id_in_the_same_direction(documents: Documents) -> None:
    await fill(documents, {id_: {"v": 1} for id_ in ("b", "c", "a")})
    assert await ids(documents, Query(C, order_by="v")) == ["a", "b", "c"]
    assert await ids(documents, Query(C, order_by="v", descending=True)) == ["c", "b", "a"]


async def test_documents_without_the_ordered_field_are_left_out(documents: Documents) -> None:
    await fill(documents, {"a": {"v": None}, "b": {}, "c": {"v": 1}, "d": {"w": 1}})
    assert await ids(documents, Query(C, order_by="v")) == ["a", "c"]


async def test_several_equalities_must_all_hold_and_need_no_index(open_documents: OpenDocuments) -> None:
    documents = await open_documents(indexes=())
    await fill(documents, {"a": {"x": 1, "y": "p"}, "b": {"x": 1, "y": "q"}, "c": {"x": 2, "y": "p"}})
    both = [Filter("x", Operator.EQUAL, 1), Filter("y", Operator.EQUAL, "p")]
    assert await ids(documents, Query(C, both)) == ["a"]
    assert await ids(documents, Query(C, [*both, Filter("y", Operator.EQUAL, "q")])) == []


@pytest.mark.parametrize("name", ["with.dot", "it's", "`tick`", "back\\slash", "ünï", "1st", '"', "$1", "a b", "-"])
async def test_a_field_of_any_name_can_be_asked_for(documents: Documents, name: str) -> None:
    await fill(documents, {"a": {name: 1}, "b": {name: 2}, "c": {"with": {"dot": 1}}})
    assert await ids(documents, Query(C, where(name, Operator.EQUAL, 1))) == ["a"]
    assert await ids(documents, Query(C, where(name, Operator.GREATER, 0), order_by=name)) == ["a", "b"]


@pytest.mark.parametrize("collection", ["with-dash", "it's", "ünï", "$1", "a b"])
async def test_a_collection_of_any_name_can_be_asked_for(open_documents: OpenDocuments, collection: str) -> None:
    documents = await open_documents(prefix="pre'fix-")
    await fill(documents, {"a": {"n": 1}}, collection)
    [found] = await documents.query(Query(collection, order_by="n"))
    assert found.key == Key(collection, "a")


async def test_values_longer_than_an_index_entry_are_compared_by_their_start(documents: Documents) -> None:
    rows: dict[str, Mapping[str, Value]] = {
        "z-text-fits": {"v": "b" * 1499},
        "a-text-cut": {"v": "b" * 2000},
        "b-text-cut": {"v": "b" * 1500},
        "z-bytes-fit": {"v": b"b" * 1500},
        "a-bytes-cut": {"v": b"b" * 2000},
        "b-bytes-cut": {"v": b"b" * 1501},
    }
    await fill(documents, rows)
    assert await ids(documents, Query(C, order_by="v")) == list(rows)
    assert await ids(documents, Query(C, where("v", Operator.GREATER, b"b" * 1499), order_by="v")) == list(rows)[3:]
    assert await ids(documents, Query(C, where("v", Operator.GREATER, "b" * 1499), order_by="v")) == list(rows)[1:3]


async def test_the_limit_is_one_to_a_thousand(documents: Documents) -> None:
    await fill(documents, {f"{number:04}": {} for number in range(500)})
    await fill(documents, {f"{number:04}": {} for number in range(500, 1000)})
    await fill(documents, {"1000": {}})
    assert len(await ids(documents, Query(C, limit=1000))) == 1000
    assert await ids(documents, Query(C, limit=1)) == ["0000"]
    assert len(await ids(documents, Query(C))) == 100
    for limit in (0, -1, 1001):
        with pytest.raises(StoreError) as caught:
            await documents.query(Query(C, limit=limit))
        assert caught.value.code == "invalid_query"


@pytest.mark.parametrize(
    "query",
    [
        Query(C, where("v", Operator.LESS, 1)),
        Query(C, where("v", Operator.LESS, 1), order_by="w"),
        Query(C, [Filter("v", Operator.LESS, 1), Filter("w", Operator.GREATER, 1)], order_by="v"),
        Query(C, descending=True),
        Query(C, where("v", Operator.LESS, None), order_by="v"),
        Query(C, where("v", Operator.GREATER, math.nan), order_by="v"),
        Query(C, where("v", Operator.EQUAL, [1])),
        Query(C, where("v", Operator.EQUAL, {"a": 1})),
        Query(C, where("v", Operator.EQUAL, "é" * 750)),
        Query(C, where("v", Operator.EQUAL, b"x" * 1501)),
    ],
    ids=[
        "unordered",
        "other order",
        "two ranges",
        "descending by id",
        "null",
        "nan",
        "list",
        "map",
        "long text",
        "long bytes",
    ],
)
async def test_a_query_that_not_every_store_takes_is_refused_by_each(documents: Documents, query: Query) -> None:
    with pytest.raises(StoreError) as caught:
        await documents.query(query)
    assert caught.value.code == "invalid_query"


async def test_a_deleted_document_is_not_found(documents: Documents) -> None:
    await fill(documents, {"a": {"n": 1}, "b": {"n": 1}})
    [first, _] = await documents.query(Query(C))
    await documents.commit([Delete(first.key, first.version)])
    assert await ids(documents, Query(C, where("n", Operator.EQUAL, 1))) == ["b"]


async def test_the_services_own_queries_are_served_by_the_declared_indexes(open_documents: OpenDocuments) -> None:
    documents = await open_documents(indexes=INDEXES)
    batches: dict[str, Mapping[str, Value]] = {
        f"{run}.{number}": {"run_id": run, "last_sequence": number} for run in ("r1", "r2") for number in (9, 19, 29)
    }
    await fill(documents, batches, RUN_EVENTS)
    of_run = [Filter("run_id", Operator.EQUAL, "r1"), Filter("last_sequence", Operator.GREATER_OR_EQUAL, 15)]
    assert await ids(documents, Query(RUN_EVENTS, of_run, order_by="last_sequence")) == ["r1.19", "r1.29"]
    runs: dict[str, Mapping[str, Value]] = {
        f"run{day}": {"state": "queued" if day % 2 else "failed", "created_at": NOON + timedelta(days=day)}
        for day in range(6)
    }
    await fill(documents, runs, RUNS)
    newest = Query(RUNS, where("state", Operator.EQUAL, "queued"), order_by="created_at", descending=True, limit=2)
    assert await ids(documents, newest) == ["run5", "run3"]


@pytest.mark.parametrize("backend", ["memory", "postgres"], indirect=True)
@pytest.mark.parametrize(
    "query",
    [
        Query(RUNS, where("state", Operator.EQUAL, "queued"), order_by="created_at"),
        Query(RUN_EVENTS, where("run_id", Operator.EQUAL, "r"), order_by="last_sequence", descending=True),
        Query(RUNS, where("workload", Operator.EQUAL, "x"), order_by="created_at", descending=True),
        Query(C, where("state", Operator.EQUAL, "queued"), order_by="created_at", descending=True),
    ],
    ids=["ascending", "descending", "another field", "another collection"],
)
async def test_a_query_without_its_composite_index_is_refused_as_in_the_cloud(
    open_documents: OpenDocuments, query: Query
) -> None:
    """F33: Firestore's emulator takes them all."""
    documents = await open_documents(indexes=INDEXES, prefix="p-")
    with pytest.raises(IndexMissing, match=query.collection):
        await documents.query(query)
    assert await (await open_documents(indexes=None)).query(query) == []


async def test_queries_of_a_closed_store_or_without_time_are_unavailable(documents: Documents) -> None:
    with pytest.raises(StoreUnavailable):
        await documents.query(Query(C), timeout=0)
    await documents.close()
    with pytest.raises(StoreUnavailable):
        await documents.query(Query(C))
