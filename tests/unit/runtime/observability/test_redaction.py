"""No secret reaches a log line, whatever it is called and however deep it lies."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from runtime.observability import logs, redaction
from runtime.observability.redaction import MASK, redact, redact_credentials, redact_text

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
SECRETS = [
    TOKEN,
    TOKEN.rsplit(".", 1)[0] + ".",
    "hf_local_" + "a" * 43,
    "ya29.c.b0Aaekm1K-abcdef",
    "https://storage.googleapis.com/b/o?X-Goog-Signature=abcdef0123&x=1",
    "https://b.s3.amazonaws.com/o?X-Amz-Signature=abcdef0123&X-Amz-Expires=9",
    "https://r.example/?next=https%3A%2F%2Fs.example%2Fo%3Fa%3D1%26X-Goog-Signature%3Dabcdef0123%26b%3D2",
    "https://r.example/?next=https%253A%252F%252Fs.example%252Fo%253Fa%26X-Amz-Signature%253Dabcdef0123",
    "https://r.example/?next=%2Fo%3Fsig%3Dabcdef0123",
    "postgres://user:hunter2@db/x",
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_wherever_it_stands_in_a_text(secret: str) -> None:
    masked = redact_text(f"before {secret} after")
    assert MASK in masked
    for part in ("c2lnbmF0dXJl", "a" * 43, "b0Aaekm1K", "abcdef0123", "hunter2", "MHcCAQEE", "eyJzdWIi"):
        assert part not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after") or "PRIVATE KEY" in secret or "://" in secret


@given(
    st.lists(
        st.sampled_from(
            [
                *SECRETS,
                "X-Goog-Signature",
                "%3D",
                "%253D",
                "%26",
                "=",
                "@",
                "://",
                "?sig=",
                "EYJ",
                "Hf_",
                "YA29.",
                "-----",
                "\u212a",
                "\u017f",
                "\u0130",
            ]
        )
        | st.text(max_size=8)
    ).map("".join)
)
def test_a_text_that_is_not_searched_holds_no_secret(text: str) -> None:
    assert redact_text(text) == redaction._secret_text().sub(MASK, text)
    assert redact_credentials(text) == redaction._credential().sub(MASK, text)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_credential_is_one_in_every_text_and_prose_is_none(secret: str) -> None:
    assert redact_credentials(secret) == redact_text(secret) != secret
    said = "Your password: at least eight letters. One token = four letters; secret=none."
    assert redact_credentials(said) == said


@pytest.mark.parametrize(
    "piece", ["://", "://a:", "password ", "eyJ", "-----BEGIN ", "-----END A", "hf_a", "X-Goog-Signature%25", "sig%"]
)
def test_a_text_that_nearly_holds_secrets_takes_no_longer_than_others(piece: str) -> None:
    """A pattern that tries every end from every beginning would take days for this one."""
    text = piece * 2 + ":" * 100_000 + " " + piece * 50_000
    assert redact_text(text).count(MASK) <= 1


def test_a_line_is_ascii_whatever_it_says() -> None:
    stream = io.StringIO()
    logs.configure("test", stream=stream)
    structlog.get_logger().info("said", half="\ud800", accent="é", number=2**70, none=None, part=0.5, kind=object)
    line = stream.getvalue()
    assert line.isascii()
    said = json.loads(line)
    assert (said["half"], said["accent"], said["number"], said["part"]) == ("\ud800", "é", 2**70, 0.5)


@pytest.mark.parametrize(
    "name", ["authorization", "Authorization", "executor_jwt", "lease_token", "token", "db_password"]
)
def test_a_secret_named_entry_is_masked_whatever_it_holds(name: str) -> None:
    assert redact({"outer": [{name: "plain looking"}]}) == {"outer": [{name: MASK}]}


@pytest.mark.parametrize("name", ["tokens_used_by", "message_id", "event", "subscription"])
def test_an_ordinary_entry_is_left_alone(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_redaction_never_raises_and_never_shows_a_planted_token(value: object) -> None:
    assert TOKEN not in json.dumps(redact({"value": value, "note": TOKEN}))


def test_every_line_is_json_with_severity_and_passes_the_filter() -> None:
    out = io.StringIO()
    logs.configure("worker", "info", out)
    try:
        structlog.get_logger().warning("push_refused", authorization="Bearer x", detail=f"got {TOKEN}")
        logging.getLogger("library").error("failed with %s", TOKEN)
        structlog.get_logger().error("unexpected", exc_info=ValueError(TOKEN))
    finally:
        logging.getLogger().handlers = []
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["severity"] for line in lines] == ["WARNING", "ERROR", "ERROR"]
    assert {line["role"] for line in lines} == {"worker"}
    assert "eyJ" not in out.getvalue()
    assert "Bearer x" not in out.getvalue()
