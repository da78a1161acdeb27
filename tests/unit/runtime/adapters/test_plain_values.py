"""What becomes of a value before it is stored: a copy, in plain types, with Firestore's size."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.plain_values import FIELD_BYTES, plain_fields, plain_value
from runtime.ports.documents import DocumentTooLarge, StoreError, Value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0_"), min_size=1, max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(max_size=8)
    | st.datetimes(timezones=st.just(UTC))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.dictionaries(NAMES, inner) | st.lists(st.dictionaries(NAMES, inner), max_size=3),
    max_leaves=8,
)


def formula(value: Any) -> int:
    """Firestore's documentation, "Storage size calculations", written down a second time."""
    match value:
        case None | bool():
            return 1
        case int() | float() | datetime():
            return 8
        case str():
            return len(value.encode()) + 1
        case bytes():
            return len(value)
        case list():
            return sum(map(formula, value))
    return sum(formula(name) + formula(item) for name, item in value.items())


@given(st.dictionaries(NAMES, VALUES))
def test_good_fields_are_copied_unchanged_with_firestores_size(data: dict[str, Value]) -> None:
    copy, size = plain_fields(data, "document")
    assert copy == data
    assert size == formula(data)


def test_nothing_of_the_copy_is_shared() -> None:
    inner: list[Value] = [{"a": 1}]
    copy = plain_value({"list": inner}, "value")
    inner.append(2)
    assert copy == {"list": [{"a": 1}]}


def test_an_error_names_the_way_to_the_value_and_never_shows_it() -> None:
    with pytest.raises(StoreError) as caught:
        plain_fields({"outer": [1, {"in.ner": object()}]}, "runs/r1")
    assert str(caught.value) == "runs/r1['outer'][1]['in.ner']: a value of type object cannot be stored"


def test_a_long_name_is_cut_in_the_error() -> None:
    with pytest.raises(DocumentTooLarge) as caught:
        plain_fields({"n" * 5000: 1}, "runs/r1")
    assert len(str(caught.value)) < 200


def test_the_size_of_a_field_is_limited_at_the_top_only() -> None:
    with pytest.raises(DocumentTooLarge):
        plain_fields({"a": b"x" * (FIELD_BYTES + 1)}, "d")
    with pytest.raises(DocumentTooLarge):
        plain_fields({"a": {"b": b"x" * FIELD_BYTES}}, "d")
    plain_fields({"a": b"x" * FIELD_BYTES, "b": b"x" * FIELD_BYTES}, "d")


def test_a_deeply_nested_value_is_refused_before_the_stack_ends() -> None:
    value: Value = 1
    for _ in range(100_000):
        value = {"m": value}
    with pytest.raises(StoreError, match="deeper than 20"):
        plain_fields({"field": value}, "d")
