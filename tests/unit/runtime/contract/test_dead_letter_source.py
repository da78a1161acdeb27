"""What the broker says of a dead-lettered message, read strictly."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.dead_letter import read_time
from runtime.contract.dead_letter_source import DeadLetterSource, read_source

SAID = {
    "CloudPubSubDeadLetterSourceDeliveryCount": "5",
    "CloudPubSubDeadLetterSourceSubscription": "jobs-push",
    "CloudPubSubDeadLetterSourceSubscriptionProject": "p-test",
    "CloudPubSubDeadLetterSourceTopicPublishTime": "2026-01-01T00:00:00.250+00:00",
}


def test_the_four_attributes_say_where_a_message_was_given_up() -> None:
    published = datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC)
    assert read_source(SAID) == DeadLetterSource("projects/p-test/subscriptions/jobs-push", 5, published)


@pytest.mark.parametrize("name", ["Subscription", "SubscriptionProject"])
@pytest.mark.parametrize("value", ["", "a/b", "!", "x" * 300])
def test_without_a_subscription_there_is_no_source(name: str, value: str) -> None:
    assert read_source({**SAID, f"CloudPubSubDeadLetterSource{name}": value}) is None


@pytest.mark.parametrize("value", ["", "many", "-1", "1" * 10, "٣"])
def test_a_count_that_is_none_is_left_out(value: str) -> None:
    source = read_source({**SAID, "CloudPubSubDeadLetterSourceDeliveryCount": value})
    assert source is not None
    assert source.delivery_count is None


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00.000+00:00"])
def test_one_time_has_many_spellings(text: str) -> None:
    assert read_time(text) == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-01-01T00:00:00", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert read_time(text) is None


@given(st.dictionaries(st.sampled_from(sorted(SAID)), st.text()))
def test_no_attribute_is_an_error(attributes: dict[str, str]) -> None:
    read_source(attributes)
