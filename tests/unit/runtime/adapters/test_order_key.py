"""The order of keys is the order of values."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.order_key import INDEXED_BYTES, order_key, type_bounds
from runtime.ports.documents import Value

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
NUMBERS = INTEGERS | FLOATS | st.sampled_from([2**53, 2**53 + 1, 2.0**53, -0.0, 0, 2**63 - 1, 2.0**63, -(2.0**63)])
TIMES = st.datetimes(timezones=st.just(UTC))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def sign(first: Any, second: Any) -> int:
    return int(first > second) - int(first < second)


@given(NUMBERS, NUMBERS)
def test_integers_and_floats_are_ordered_by_value_and_exactly(first: float, second: float) -> None:
    assert sign(order_key(first), order_key(second)) == sign(first, second)


@given(TIMES, TIMES)
def test_times_are_ordered_to_the_microsecond(first: datetime, second: datetime) -> None:
    assert sign(order_key(first), order_key(second)) == sign(first, second)


@given(TEXTS, TEXTS)
def test_texts_are_ordered_by_their_utf_8_bytes(first: str, second: str) -> None:
    assert sign(order_key(first), order_key(second)) == sign(first.encode(), second.encode())


@given(st.binary(), st.binary())
def test_bytes_are_ordered_by_themselves(first: bytes, second: bytes) -> None:
    assert sign(order_key(first), order_key(second)) == sign(first, second)


@given(NUMBERS | TIMES | TEXTS | st.binary() | st.booleans() | st.none() | st.just(math.nan))
def test_every_key_lies_within_the_bounds_of_its_type(value: Value) -> None:
    first, end = type_bounds(order_key(value))
    assert first <= order_key(value) < end


def test_types_are_in_firestores_order() -> None:
    values: list[Value] = [
        None, True, math.nan, -math.inf, math.inf, datetime(1, 1, 1, tzinfo=UTC), "", b"", [], {},
    ]  # fmt: skip
    keys = [order_key(value) for value in values]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_a_long_value_is_compared_by_its_start_and_comes_after_one_that_just_fits() -> None:
    assert order_key(b"x" * 2000) == order_key(b"x" * 1501)
    assert order_key(b"x" * INDEXED_BYTES) < order_key(b"x" * 1501) < order_key(b"y")
    assert order_key("x" * 1499) < order_key("x" * 1500) == order_key("x" * 9000)
