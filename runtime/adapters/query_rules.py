"""Which queries a store takes, and which of them need a composite index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from runtime.adapters.document_rules import check_key
from runtime.adapters.order_key import INDEXED_BYTES
from runtime.adapters.plain_values import plain_value
from runtime.ports.documents import Filter, IndexMissing, Key, Operator, Query, StoreError

Indexes = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Declared composite indexes, as in contract.names.INDEXES: (logical collection, ((field, direction), ...))."""

LIMIT_MAX: Final = 1000
"""Most documents of one query; Firestore pages at 1000 as well."""


def checked_query(query: Query, indexes: Indexes | None) -> Query:
    """The query with filter values in plain types.

    Args:
        query: what is asked.
        indexes: declared composite indexes; None means that they are not checked.

    Raises:
        IndexMissing: the query needs an index that is not declared.
        StoreError: `invalid_query`.
    """
    check_key(Key(query.collection, "any"))
    if not 1 <= query.limit <= LIMIT_MAX:
        raise _invalid(query, f"limit {query.limit} is not in 1 to {LIMIT_MAX}")
    if query.descending and query.order_by is None:
        raise _invalid(query, "descending needs order_by")
    where = tuple(_checked_filter(query, condition) for condition in query.where)
    if any(f.operator is not Operator.EQUAL and f.field != query.order_by for f in where):
        raise _invalid(query, "a range is allowed only on the field that order_by names")
    if indexes is not None:
        _check_index(query, indexes)
    return Query(query.collection, where, query.order_by, query.descending, query.limit)


def _checked_filter(query: Query, condition: Filter) -> Filter:
    value = plain_value(condition.value, f"{query.collection}.{condition.field}")
    if isinstance(value, list | dict):
        raise _invalid(query, f"the filter on {condition.field} compares with a list or map")
    # A text counts one byte more, as in every size of Firestore.
    size = len(value.encode()) + 1 if isinstance(value, str) else len(value) if isinstance(value, bytes) else 0
    if size > INDEXED_BYTES:
        raise _invalid(query, f"the filter on {condition.field} has {size} bytes, the limit is {INDEXED_BYTES}")
    unordered = value is None or (isinstance(value, float) and math.isnan(value))
    if unordered and condition.operator is not Operator.EQUAL:
        raise _invalid(query, f"the range on {condition.field} compares with null or NaN")
    return Filter(condition.field, condition.operator, value)


def _check_index(query: Query, indexes: Indexes) -> None:
    equal = {f.field for f in query.where if f.operator is Operator.EQUAL} - {query.order_by}
    if query.order_by is None or not equal:
        return
    # Firestore joins indexes that share the order, so several may cover the equalities together.
    last = (query.order_by, "DESCENDING" if query.descending else "ASCENDING")
    covered: set[str] = set()
    for collection, fields in indexes:
        *first, end = fields
        names = {name for name, _ in first}
        if collection == query.collection and tuple(end) == last and names <= equal:
            covered |= names
    if covered != equal:
        wanted = ", ".join([*sorted(equal), f"{last[0]} {last[1]}"])
        raise IndexMissing(
            f"a query of {query.collection} needs the composite index ({wanted}); declare it in contract.names.INDEXES"
        )


def _invalid(query: Query, why: str) -> StoreError:
    return StoreError(f"query of {query.collection}: {why}", code="invalid_query")
