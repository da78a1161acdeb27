"""JSON on its way out: faithful or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.answer import read_answer
from runtime.execution.values import VALUE_DEPTH, ValueRefused, decode, encode, is_deeper, one_line

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_what_is_encoded_is_read_back_equal(value: object) -> None:
    try:
        encoded = encode(value, 1 << 20)
    except ValueRefused:
        assert "\\ud" in json.dumps(value), "only half of a surrogate pair is refused"
    else:
        assert decode(encoded) == value


@pytest.mark.parametrize("value", [float("inf"), {1, 2}, object(), b"x", {"a": {"b": float("nan")}}, {(1,): 2}])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(ValueRefused):
        encode(value, 1000)


@pytest.mark.parametrize("data", [b"", b"nul", b"NaN", b"[Infinity]", b"1e400", b'"\xff"', b"[" * 100_000, b"1 2"])
def test_what_is_no_json_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode(data)


def test_depth_is_counted_in_containers() -> None:
    value: Any = 1
    for _ in range(VALUE_DEPTH):
        value = {"a": value}
    assert not is_deeper(value, VALUE_DEPTH)
    assert is_deeper([value], VALUE_DEPTH)
    assert encode("[" * 500, 1000), "brackets in a text are no depth"
    with pytest.raises(ValueRefused) as caught:
        encode([value], 1 << 20)
    assert caught.value.code == "value_too_deep"


@given(st.text(), st.integers(2, 50))
def test_an_error_is_one_line_however_it_came(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.isprintable()


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"words": 3}, {"output": 1}, [{"error": "x"}]])
def test_a_value_without_a_status_is_the_output(value: object) -> None:
    result = read_answer(value)
    assert (result.status, result.output) == (ProgressStatus.COMPLETED, value)


@pytest.mark.parametrize(
    ("value", "code", "says"),
    [
        ({"status_code": 400}, 400, "status 400"),
        ({"status_code": 500, "output": 1}, 500, "status 500"),
        ({"status_code": 404, "error": "no"}, 404, "no"),
        ({"status_code": 200, "error": "no"}, None, "no"),
        ({"error": "no"}, None, "no"),
        ({"error": 5}, None, "must be a string"),
        ({"status_code": "500"}, None, "must be an integer"),
        ({"status_code": True}, None, "must be an integer"),
        ({"status_code": 99}, None, "must be an integer"),
        ({"status_code": 200, "words": 3}, None, "answers have no words"),
        ({"error": None, "words": 3}, None, "put data under `output`"),
    ],
)
def test_a_status_of_400_or_an_error_is_never_a_success(value: dict[str, Any], code: int | None, says: str) -> None:
    result = read_answer(value)
    assert (result.status, result.status_code) == (ProgressStatus.FAILED, code)
    assert result.failure_class is FailureClass.FRAMEWORK_ERROR
    assert says in (result.error or "")


@pytest.mark.parametrize(
    "value", [{"status_code": 200}, {"status_code": 204, "output": None}, {"error": None}, {"error": ""}]
)
def test_an_answer_without_a_failure_is_a_success(value: dict[str, Any]) -> None:
    assert read_answer(value).status is ProgressStatus.COMPLETED
