"""The fast way to encode a payload writes and refuses what the plain one does."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.payload import encode_payload
from runtime.execution.values import ValueRefused, encode
from tests.support.json_values import json_values


class Level(IntEnum):
    HIGH = 3


class Mine(dict[str, object]):
    pass


@given(json_values | st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none()))
def test_every_value_is_encoded_to_the_same_bytes(value: object) -> None:
    assert encode_payload(value) == encode(value, EVENT_BYTES)


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400])
def test_no_whole_number_loses_a_digit(number: int) -> None:
    assert encode_payload({"n": number}) == b'{"n":%d}' % number


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, b"x", {1}, complex(1), datetime(2026, 1, 1, tzinfo=UTC), "\ud800", {"n": math.nan}, [b"x"]],
    ids=repr,
)
def test_what_is_no_json_is_refused_at_every_depth(value: object) -> None:
    for wrapped in (value, {"v": value}, [value], {"v": {"v": value}}):
        with pytest.raises(ValueRefused):
            encode_payload(wrapped)


@pytest.mark.parametrize("value", [{1: "x"}, {"n": Level.HIGH}, Mine(a=1), {"f": 0.1}, {"f": 1e22}], ids=repr)
def test_what_the_plain_encoder_writes_in_its_own_way_is_left_to_it(value: object) -> None:
    assert encode_payload(value) == encode(value, EVENT_BYTES)


def test_a_half_of_a_pair_is_refused_as_a_key_too() -> None:
    with pytest.raises(ValueRefused):
        encode_payload({"\udfff": 1})


def test_a_payload_may_fill_its_limit_and_not_one_byte_more() -> None:
    assert len(encode_payload({"t": "x" * (EVENT_BYTES - 8)})) == EVENT_BYTES
    with pytest.raises(ValueRefused) as refused:
        encode_payload({"t": "x" * (EVENT_BYTES - 7)})
    assert refused.value.code == "value_too_large"
