"""The hash of a job: every field counts, no spelling does."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.contract.envelope import encode_dispatch, parse_dispatch
from runtime.identity.payload_hash import PayloadNotCanonical, dispatch_hash
from tests.support.json_values import json_objects, json_values, texts


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


def test_the_hash_is_over_domain_nul_and_the_canonical_form() -> None:
    canonical = b'{"a":1,"b":[true,null,"\xc3\xa9"]}'
    expected = hashlib.sha256(b"holdfast-dispatch/v1\x00" + canonical).hexdigest()
    assert dispatch_hash({"b": [True, None, "é"], "a": 1.0, "executor_jwt": "any"}) == expected


@given(json_objects | st.dictionaries(texts, st.integers() | st.lists(json_values), max_size=8))
def test_the_form_is_that_of_rfc_8785_for_every_payload(payload: dict[str, object]) -> None:
    payload.pop("executor_jwt", None)
    try:
        canonical = rfc8785.dumps(payload)  # type: ignore[arg-type]  # JSON
    except rfc8785.CanonicalizationError:
        with pytest.raises(PayloadNotCanonical):
            dispatch_hash(payload)
    else:
        assert dispatch_hash(payload) == hashlib.sha256(b"holdfast-dispatch/v1\x00" + canonical).hexdigest()


@pytest.mark.parametrize("text", ['\x00\x1f\x7f\x80\u2028\ufeff"\\/\b\t\n\f\r', "\U0001f600\ufb33", "\u20ac"])
def test_every_text_is_written_as_rfc_8785_says(text: str) -> None:
    for payload in ({"a": text}, {text: 1, "b": 2}, {"\ufb33": 1, text: 2}):
        expected = hashlib.sha256(b"holdfast-dispatch/v1\x00" + rfc8785.dumps(payload)).hexdigest()
        assert dispatch_hash(payload) == expected


@given(json_objects, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters(payload: dict[str, object], order: random.Random) -> None:
    assert dispatch_hash(shuffled(payload, order)) == dispatch_hash(payload)


@given(json_objects)
def test_the_way_over_the_wire_changes_nothing(payload: dict[str, object]) -> None:
    received = parse_dispatch(encode_dispatch("j", payload)).payload
    assert dispatch_hash(received) == dispatch_hash(payload)


@given(json_objects, texts)
def test_the_token_is_left_out_at_the_top_and_nowhere_else(payload: dict[str, object], token: str) -> None:
    assert dispatch_hash({**payload, "executor_jwt": token}) == dispatch_hash(
        {name: value for name, value in payload.items() if name != "executor_jwt"}
    )
    assert dispatch_hash({"x": {"executor_jwt": token}}) != dispatch_hash({"x": {}})


@given(json_objects, texts, json_values)
def test_every_field_counts(payload: dict[str, object], name: str, value: object) -> None:
    assume(name != "executor_jwt")
    changed = {**payload, name: value}
    same = name in payload and json.dumps(payload[name], sort_keys=True) == json.dumps(value, sort_keys=True)
    assume(not same and not _equal_numbers(payload.get(name), value))
    assert dispatch_hash(changed) != dispatch_hash(payload)


def _equal_numbers(one: object, other: object) -> bool:
    """1 and 1.0, 0 and -0.0: JSON knows one number for both, at any depth."""
    return json.dumps(one, sort_keys=True, default=str) != json.dumps(other, sort_keys=True) and one == other


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 2}, {1, 2}, b"x"]
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(PayloadNotCanonical):
        dispatch_hash({"a": value})


def test_nesting_without_end_is_refused() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(PayloadNotCanonical):
        dispatch_hash({"a": value})
