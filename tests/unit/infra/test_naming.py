"""Names are known before a preview, and fit what Google allows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.naming import ACCOUNT_MAX, ACCOUNT_MIN, PREFIX_MAX, SERVICE_MAX, Names, labels
from runtime.contract.settings.words import Workload


def names(prefix: str = "holdfast") -> Names:
    return Names(prefix=prefix, project="p-test", number="123456789012", region="europe-west1")


@given(st.from_regex(rf"[a-z][a-z0-9-]{{0,{PREFIX_MAX - 2}}}[a-z0-9]", fullmatch=True))
def test_every_prefix_that_a_stack_may_have_gives_names_within_the_limits(prefix: str) -> None:
    built = names(prefix)
    accounts = [
        built.api,
        built.tick,
        built.dead_letter_identity,
        *map(built.worker, Workload),
        *map(built.push, Workload),
    ]

    assert all(ACCOUNT_MIN <= len(account) <= ACCOUNT_MAX for account in accounts)
    assert all(re.fullmatch(r"[a-z](?:[a-z0-9-]*[a-z0-9])", account) for account in accounts)
    assert all(len(service) <= SERVICE_MAX for service in [built.api, *map(built.worker, Workload)])
    assert len(set(accounts)) == len(accounts), "two roles must not share an identity"
    assert all(map(built.jobs, Workload))
    assert built.database
    assert built.signing_key
    assert all(map(built.dead_letters, Workload))
    assert all(map(built.dead_letters_push, Workload))


def test_a_prefix_that_is_too_long_is_refused_before_it_reaches_google() -> None:
    with pytest.raises(ValueError, match="must have 6 to 30 characters"):
        names("a" * (PREFIX_MAX + 1)).push(Workload.COMPILATION)


def test_addresses_are_deterministic() -> None:
    assert names().address(names().api) == "https://holdfast-api-123456789012.europe-west1.run.app"


def test_full_names_and_members_are_spelled_as_google_does() -> None:
    assert names().topic("t") == "projects/p-test/topics/t"
    assert names().subscription("s") == "projects/p-test/subscriptions/s"
    assert names().email("a") == "a@p-test.iam.gserviceaccount.com"
    assert names().pubsub_agent == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com", (
        "BR-55: the agent is named by the project's number"
    )


@given(st.text(min_size=1, max_size=100))
def test_every_name_of_a_stack_makes_a_label_that_google_takes(stack: str) -> None:
    """BR-134."""
    assert all(re.fullmatch(r"[a-z0-9_-]{0,63}", value) for value in labels(stack, "api").values())
