"""JSON from a wire: what is refused, and that nothing else happens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.limits import JSON_DEPTH
from runtime.contract.strict_json import JsonError, parse_json
from tests.support.json_values import json_values


@given(json_values | st.integers())
def test_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b'{"a":"\xff"}', b'"\xed\xa0\x80"', '{"a":1}'.encode("utf-16"), b"\xef\xbb\xbf{}", b"NaN",
        b"[-Infinity]", b"1e999", b"9" * 5000, b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', rb'"\ud800"', rb'{"\udfff":1}',
        b"[1] x", b"'a'", b'"\n"', b"\x00",
    ],
)  # fmt: skip
def test_what_only_some_parsers_accept_is_refused(raw: bytes) -> None:
    """BR-09"""
    with pytest.raises(JsonError):
        parse_json(raw)


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert parse_json(rb'"\ud83d\ude00"') == "\U0001f600"


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_accepted_up_to_its_limit_and_refused_above(opening: bytes, closing: bytes) -> None:
    """BR-07"""
    parse_json(opening * JSON_DEPTH + b"1" + closing * JSON_DEPTH)
    for depth in (JSON_DEPTH + 1, 20000):
        with pytest.raises(JsonError, match="nested deeper"):
            parse_json(opening * depth + b"1" + closing * depth)
        with pytest.raises(JsonError):
            parse_json(opening * depth)


def test_brackets_in_texts_are_no_nesting() -> None:
    value = {"[" * 100: '\\"[[' * 50 + "\\"}
    assert parse_json(json.dumps(value).encode()) == value


def test_an_unfinished_text_of_escapes_is_read_once() -> None:
    """A scan that started anew at each quote would take hours for this one."""
    with pytest.raises(JsonError):
        parse_json(b'"' + b'\\"' * 500_000)


@given(st.binary(max_size=60) | st.text('[]{}",:\\u0d8 1e-', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_their_error(raw: bytes) -> None:
    assert "\n" not in refusal(raw)


def refusal(raw: bytes) -> str:
    try:
        parse_json(raw)
    except JsonError as error:
        return str(error)
    return ""
