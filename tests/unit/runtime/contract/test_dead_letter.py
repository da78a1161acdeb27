"""The id that claim and letter share, and what a letter's document holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.dead_letter import ERROR_CHARACTERS, LETTER_RETENTION, DeadLetter, message_key
from runtime.contract.states import FailureClass

SUBSCRIPTION = "projects/p-test/subscriptions/exec-sub"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("message_id", ["a/b", "..", "__x__", "é" * 800, "\x00", " 1001", "\ud800"])
def test_any_message_id_gives_a_plain_document_id(message_id: str) -> None:
    """BR-38"""
    key = message_key(SUBSCRIPTION, message_id)
    assert len(key) == 64
    assert key != message_key(SUBSCRIPTION, message_id + "x")


def test_no_two_pairs_share_a_claim_by_concatenation() -> None:
    """BR-38"""
    assert message_key("p/s1", "23") != message_key("p/s12", "3")


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_different_messages_have_different_ids(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (message_key(*one) == message_key(*other)) == (one == other)


def letter(error: str = "") -> DeadLetter:
    return DeadLetter(
        source="execution", failure_class=FailureClass.RETRY_EXHAUSTED, last_failure_class=None,
        subscription=SUBSCRIPTION, message_id="1001", failed_at=NOW, worker="rev-1", error=error,
    )  # fmt: skip


def test_a_letter_goes_when_its_time_is_over() -> None:
    data = letter().data()
    assert (data["version"], data["state"], data["expires_at_ts"]) == ("v1", "dead_lettered", NOW + LETTER_RETENTION)


def test_classes_are_stored_as_plain_text() -> None:
    data = letter().data()
    assert (type(data["failure_class"]), data["last_failure_class"]) == (str, None)


def test_a_long_error_is_cut() -> None:
    assert letter("x" * 5000).data()["error"] == "x" * ERROR_CHARACTERS
