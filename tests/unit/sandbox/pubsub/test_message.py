"""What may be published, and how a message is pushed."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from sandbox.pubsub.declared import read_subscription
from sandbox.pubsub.envelope import envelope
from sandbox.pubsub.message import Draft, InvalidMessage, check_drafts
from tests.support.brokers import NOW, message


@pytest.mark.parametrize(
    "draft",
    [
        Draft(data=b"x"),
        Draft(attributes={"a": ""}),
        Draft(data=b"x" * 10_000_000),
        Draft(data=b"x", attributes={str(n): "" for n in range(100)}),
        Draft(data=b"x", attributes={"k" * 256: "v" * 1024}, ordering_key="o" * 1024),
    ],
    ids=["data", "attributes", "largest", "most attributes", "longest names"],
)
def test_a_message_within_the_limits_is_accepted(draft: Draft) -> None:
    check_drafts([draft])


@pytest.mark.parametrize(
    ("draft", "names"),
    [
        (Draft(), "neither data nor attributes"),
        (Draft(data=b"x" * 10_000_001), "request_size is 10000001; the maximum is 10000000"),
        (Draft(data=b"x", attributes={str(n): "" for n in range(101)}), "attribute_count is 101"),
        (Draft(data=b"x", attributes={"é" * 129: ""}), "is 258; the maximum is 256"),
        (Draft(data=b"x", attributes={"a": "v" * 1025}), "attribute 'a' is 1025"),
        (Draft(data=b"x", attributes={"googclient": ""}), "starts with 'goog'"),
        (Draft(data=b"x", attributes={"": "a"}), "is empty"),
        (Draft(data=b"x", ordering_key="o" * 1025), "ordering_key_size is 1025"),
    ],
)
def test_a_message_over_a_limit_is_refused_and_the_limit_named(draft: Draft, names: str) -> None:
    with pytest.raises(InvalidMessage, match=names):
        check_drafts([draft])


@pytest.mark.parametrize(("count", "names"), [(0, "no message"), (1001, "message_count is 1001")])
def test_a_request_has_one_to_a_thousand_messages(count: int, names: str) -> None:
    with pytest.raises(InvalidMessage, match=names):
        check_drafts([Draft(data=b"x")] * count)


def wrapped(body: bytes) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(body)
    return read


def test_an_envelope_has_both_spellings_and_nothing_that_is_empty() -> None:
    subscription = read_subscription("p-test", "s", {"topic": "t"})
    body = wrapped(envelope(subscription, message(7, "hello"), 3))
    assert body == {
        "message": {
            "data": base64.b64encode(b"hello").decode(),
            "messageId": "7",
            "message_id": "7",
            "publishTime": "2026-01-01T00:00:00Z",
            "publish_time": "2026-01-01T00:00:00Z",
        },
        "subscription": "projects/p-test/subscriptions/s",
    }


def test_an_envelope_has_attributes_ordering_key_and_with_a_dead_letter_policy_the_attempt() -> None:
    letters = {"deadLetterPolicy": {"deadLetterTopic": "dead"}}
    subscription = read_subscription("p-test", "s", {"topic": "t", **letters})
    body = wrapped(envelope(subscription, message(7, "", attributes={"a": "é"}, ordering_key="k"), 3))
    assert body["deliveryAttempt"] == 3
    assert body["message"]["attributes"] == {"a": "é"}
    assert body["message"]["orderingKey"] == "k"
    assert "data" not in body["message"]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "00Z"), (120_000, "00.120Z"), (123_456, "00.123456Z"), (7, "00.000007Z")],
)
def test_times_have_the_shortest_exact_fraction_of_none_three_or_six_digits(microseconds: int, text: str) -> None:
    subscription = read_subscription("p-test", "s", {"topic": "t"})
    published = NOW + timedelta(microseconds=microseconds)
    body = wrapped(envelope(subscription, message(7, published=published), 1))
    assert body["message"]["publishTime"] == f"2026-01-01T00:00:{text}"
