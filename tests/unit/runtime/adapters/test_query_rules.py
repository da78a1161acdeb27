"""Which queries need a composite index; that each store refuses the same queries is in the contract tier."""

from __future__ import annotations

import pytest

from runtime.adapters.query_rules import Indexes, checked_query
from runtime.ports.documents import Filter, IndexMissing, Operator, Query

STATE = Filter("state", Operator.EQUAL, "queued")
MODE = Filter("mode", Operator.EQUAL, "async")
NEWER = Filter("created_at", Operator.GREATER, 1)

BY_STATE: Indexes = [("runs", (("state", "ASCENDING"), ("created_at", "ASCENDING")))]
BY_MODE: Indexes = [("runs", (("mode", "DESCENDING"), ("created_at", "ASCENDING")))]
BY_BOTH: Indexes = [("runs", (("mode", "ASCENDING"), ("state", "ASCENDING"), ("created_at", "ASCENDING")))]
BY_THREE: Indexes = [("runs", (("mode", "ASCENDING"), ("app", "ASCENDING"), ("created_at", "ASCENDING")))]


@pytest.mark.parametrize(
    "query",
    [
        Query("runs"),
        Query("runs", [STATE]),
        Query("runs", [STATE, MODE]),
        Query("runs", order_by="created_at"),
        Query("runs", [NEWER], order_by="created_at", descending=True),
        Query("runs", [STATE], order_by="state"),
    ],
    ids=["all", "one equality", "two equalities", "an order", "a range on the order", "equality on the order"],
)
def test_queries_on_one_field_or_by_equality_alone_need_no_index(query: Query) -> None:
    checked_query(query, [])


@pytest.mark.parametrize(
    ("where", "indexes"),
    [
        ([STATE], BY_STATE),
        ([STATE, NEWER], BY_STATE),
        ([STATE], [*BY_THREE, *BY_STATE]),
        ([MODE], BY_MODE),
        ([STATE, MODE], BY_BOTH),
        ([MODE, STATE], BY_BOTH),
        ([STATE, MODE], [*BY_STATE, *BY_MODE]),
    ],
    ids=["one", "with range", "among others", "equality's direction", "both", "both swapped", "two joined"],
)
def test_an_equality_with_another_order_is_served_by_declared_indexes(where: list[Filter], indexes: Indexes) -> None:
    checked_query(Query("runs", where, order_by="created_at"), indexes)


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (Query("runs", [STATE], order_by="created_at"), []),
        (Query("runs", [STATE], order_by="created_at", descending=True), BY_STATE),
        (Query("runs", [STATE], order_by="updated_at"), BY_STATE),
        (Query("jobs", [STATE], order_by="created_at"), BY_STATE),
        (Query("runs", [STATE, MODE], order_by="created_at"), BY_STATE),
        (Query("runs", [STATE], order_by="created_at"), BY_BOTH),
        (Query("runs", [MODE], order_by="created_at"), BY_THREE),
    ],
    ids=["none", "direction", "order", "collection", "one of two", "more fields", "another field"],
)
def test_an_index_that_differs_in_anything_does_not_serve(query: Query, indexes: Indexes) -> None:
    with pytest.raises(IndexMissing, match="composite index"):
        checked_query(query, indexes)
    checked_query(query, None)


def test_the_message_says_which_index_to_declare() -> None:
    with pytest.raises(IndexMissing) as caught:
        checked_query(Query("runs", [STATE, MODE], order_by="created_at", descending=True), [])
    assert "(mode, state, created_at DESCENDING)" in str(caught.value)
