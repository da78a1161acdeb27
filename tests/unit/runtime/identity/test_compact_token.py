"""The form of a token, before any key is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.identity.compact_token import TOKEN_MAX, TokenMalformed, numeric_date, parse_token
from tests.support.google_tokens import encoded

HEADER, CLAIMS = encoded(b'{"alg":"RS256"}'), encoded(b'{"a":1}')


def test_a_token_is_read_without_being_believed() -> None:
    token = parse_token(f"{HEADER}.{CLAIMS}.AAAA")
    assert token.header == {"alg": "RS256"}
    assert token.claims == {"a": 1}
    assert "AAAA" not in repr(token)
    assert CLAIMS not in repr(token)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", f"{HEADER}.{CLAIMS}", f"{HEADER}.{CLAIMS}.", f"{HEADER}.{CLAIMS}.AAAA.AAAA",
        f"{HEADER}.{CLAIMS}.AAAA\n", f" {HEADER}.{CLAIMS}.AAAA", f"{HEADER}=.{CLAIMS}.AAAA", f"{HEADER}.{CLAIMS}.A+/A",
        f"{HEADER}.{CLAIMS}.A", f"{HEADER}.{CLAIMS}.AB", f"{HEADER}.{CLAIMS}.é", "\udcff.a.b",
        f"{HEADER}.{CLAIMS}.{'A' * TOKEN_MAX}",
    ],
)  # fmt: skip
def test_what_has_another_form_is_refused(text: str) -> None:
    """BR-24"""
    with pytest.raises(TokenMalformed):
        parse_token(text)


@pytest.mark.parametrize(
    "part",
    [
        b"[]", b"5", b"{", b"{}{}", b"\xff", b"[" * 3000 + b"]" * 3000, b'{"alg":"RS256","alg":"none"}',
        b'{"crit":["b64"]}',
    ],
)  # fmt: skip
def test_a_part_that_is_no_plain_object_is_refused(part: bytes) -> None:
    with pytest.raises(TokenMalformed):
        parse_token(f"{encoded(part)}.{CLAIMS}.AAAA")
    if b"crit" not in part:
        with pytest.raises(TokenMalformed):
            parse_token(f"{HEADER}.{encoded(part)}.AAAA")


@given(st.text(max_size=60) | st.text("ABab01-_.", max_size=60))
def test_no_text_raises_anything_but_its_error(text: str) -> None:
    malformed = False
    try:
        parse_token(text)
    except TokenMalformed:
        malformed = True
    assert malformed, "no text this short holds two objects and a signature by chance"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1700000000, 1700000000), (1.5, 1.5), (0, 0), (True, None), ("1700000000", None), (None, None), ([1], None),
        (1e30, None), (10**400, None), (float("inf"), None), (float("nan"), None), (-1, None),
    ],
)  # fmt: skip
def test_a_time_is_a_number_that_a_date_could_be(value: object, expected: float | None) -> None:
    """BR-22"""
    assert numeric_date({"exp": value}, "exp") == expected
    assert numeric_date({}, "exp") is None
