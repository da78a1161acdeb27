"""JSON as the API takes it: what is refused, where the fault is said to be, and the canonical form."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.api.json_value import canonical, decode, encode, faults_of, off_loop, pointer
from runtime.api.problem import Problem

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "Expecting value"),
        (b"not json", "Expecting value"),
        (b'{"a":', "Expecting value"),
        (b'{"a":1} x', "Extra data"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "is not UTF-8"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"[" * 20000 + b"]" * 20000, "nested deeper than 64"),
        (b"1" * 5000, "too many digits"),
    ],
    ids=["empty", "text", "cut", "trailing", "latin", "utf-16", "bom", "BR-07 deep", "digits"],
)
def test_bytes_that_are_not_json_are_refused_with_the_reason(body: bytes, says: str) -> None:
    with pytest.raises(Problem, match=says) as caught:
        decode(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('{"a": [1, NaN]}', "/a/1", "not a finite number"),
        ('{"a": -Infinity}', "/a", "not a finite number"),
        ('{"a": 1e999}', "/a", "not a finite number"),
        ('{"a": 9007199254740992}', "/a", "beyond 9007199254740991"),
        ('{"a": {"b": -9007199254740992}}', "/a/b", "beyond"),
        ('{"a/b~c": NaN}', "/a~1b~0c", "not a finite number"),
        ('{"a": "\\ud800"}', "/a", "surrogate"),
        ('{"\\ud800": 1}', "", "surrogate"),
        ('{"a": {"x": 1, "x": 1}}', "/a", "'x' twice"),
        ("[" * 65 + "]" * 65, "/0" * 64, "deeper than 64"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, place: str, says: str) -> None:
    (fault,) = faults_of(decode(text.encode()), exact=True)
    assert fault.pointer == place
    assert says in fault.detail


def test_every_fault_is_found_in_the_order_of_the_text() -> None:
    faults = faults_of(decode(b'{"a": NaN, "b": [1e999, 1], "c": 90071992547409920}'), exact=True)
    assert [fault.pointer for fault in faults] == ["/a", "/b/0", "/c"]


def test_the_largest_exact_integers_and_the_deepest_nesting_pass() -> None:
    text = '{"a": [9007199254740991, -9007199254740991, 0.1, -0.0]}'
    assert faults_of(decode(text.encode()), exact=True) == []
    assert faults_of(decode(b"[" * 64 + b"]" * 64), exact=True) == []


def test_large_integers_pass_where_nothing_is_hashed() -> None:
    assert faults_of(decode(b"[123456789012345678901234567890]"), exact=False) == []


def test_a_pointer_with_half_a_surrogate_can_still_be_sent() -> None:
    assert json.dumps(pointer(("\ud800",)), ensure_ascii=False).encode()


@given(JSON)
@example(1e16)
@example(-0.0)
def test_what_is_stored_reads_back_equal_and_with_the_same_canonical_form(value: object) -> None:
    again = decode(encode(value))
    assert again == value
    assert canonical(again) == canonical(value)
    assert faults_of(again, exact=True) == []


def test_a_value_that_is_not_finite_is_never_encoded() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        encode(math.inf)


@pytest.mark.parametrize("size", [1, 10_000_000])
async def test_work_on_bodies_of_any_size_gives_its_result(size: int) -> None:
    assert await off_loop(size, lambda: 7) == 7
