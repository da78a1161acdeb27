"""Standard base64 and nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.strict_base64 import decode_base64


@pytest.mark.parametrize(
    "text",
    [
        "____dGVzdA==", "dGVz\ndA==", "dGVzdA==\n", "dGV zdA==", "dGVzdA==AAAA", "dGVzdA", "dGVzdA=", "dGVzdA===",
        "_-8=", "dGVzdB==", "dGVz==", "=", "A", "ｄGVzdA==", "\udcff",
    ],
)  # fmt: skip
def test_nothing_is_skipped_and_nothing_is_repaired(text: str) -> None:
    """BR-04"""
    assert decode_base64(text) is None


def test_good_text_is_decoded_and_no_text_is_no_bytes() -> None:
    assert decode_base64("dGVzdA==") == b"test"
    assert decode_base64("") == b""


@given(st.binary(max_size=200))
def test_what_is_encoded_is_decoded(raw: bytes) -> None:
    assert decode_base64(base64.b64encode(raw).decode()) == raw


@given(st.text("ABCabc012+/=-_ \n", max_size=12))
def test_at_most_one_text_stands_for_some_bytes(text: str) -> None:
    decoded = decode_base64(text)
    assert decoded is None or base64.b64encode(decoded).decode() == text
