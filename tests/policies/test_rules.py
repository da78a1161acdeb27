"""Each rule holds on what the project renders, and one change breaks it and no other."""

from __future__ import annotations

import pytest

from policies.rules import RULES
from runtime.contract.forbidden import DATABASE, FORBIDDEN
from tests.support.policy_mutations import MUTATIONS, Mutation
from tests.support.policy_programs import PROJECT, Declared, extended, long_requests, protected, rendered


def test_what_the_project_renders_breaks_no_rule() -> None:
    assert rendered().broken() == set()
    assert long_requests().broken() == set()


def test_programs_with_an_executor_and_storage_break_no_rule() -> None:
    assert extended().broken() == set()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_change_breaks_the_rules_that_are_about_it_and_no_other(mutation: Mutation) -> None:
    """BR-15, BR-31, BR-45, BR-46, BR-50, BR-55, BR-56, BR-62, BR-83, BR-118, BR-119, BR-121, BR-122, BR-126, BR-128,
    BR-131, BR-134, BR-135, BR-136, BR-138

    A push that goes out without any one of its grants (BR-55), a binding that takes a role from everyone else (BR-121),
    a domain of one's own in front of an internal service (BR-131).
    """
    assert mutation.program().broken() == mutation.rules


@pytest.mark.parametrize("form", ["Binding", "Policy"])
@pytest.mark.parametrize(
    "kind",
    [
        "projects/iAM",
        "pubsub/topicIAM",
        "pubsub/subscriptionIAM",
        "storage/bucketIAM",
        "serviceaccount/iAM",
        "cloudrunv2/serviceIam",
        "secretmanager/secretIam",
        "artifactregistry/repositoryIam",
    ],
)
def test_what_takes_a_role_from_everyone_else_is_refused_on_everything(kind: str, form: str) -> None:
    """BR-121"""
    name = f"{kind}{form}"
    type_ = f"gcp:{name}:{name.rpartition('/')[2][0].upper()}{name.rpartition('/')[2][1:]}"
    assert extended().plus(Declared(type_, "all", {"role": "roles/viewer"})).broken() == {"I13"}


@pytest.mark.parametrize("service", ["api-service", "execution-service", "executor-service"])
def test_what_redirects_a_service_is_refused_even_where_it_is_empty(service: str) -> None:
    """BR-135: whatever a role refuses at its start; passwords of databases are another rule's."""
    refused = {name for families in FORBIDDEN.values() for family in families for name in family.names}
    names = sorted(refused - set(DATABASE.names))
    program = extended().changed(*((f"Service/{service}", f"env.{name}", "") for name in names))
    assert len(names) > 30
    assert program.lines("R10") == [f"{service}: it declares {name}" for name in names]
    assert program.broken() == {"R10"}


def test_a_grant_to_the_agent_of_a_project_id_is_no_grant_to_the_agent() -> None:
    """BR-55, BR-129"""
    wrong = f"serviceAccount:service-{PROJECT}@gcp-sa-pubsub.iam.gserviceaccount.com"
    broken = extended().with_("TopicIAMMember/execution-agent-dead-letters", "member", wrong).broken()
    assert broken == {"D04", "I14"}


def test_what_is_protected_breaks_nothing_in_production() -> None:
    """BR-119"""
    assert protected().broken() == set()


def test_every_rule_is_broken_by_some_change() -> None:
    broken = {rule for mutation in MUTATIONS for rule in mutation.rules}
    assert {rule.id for rule in RULES} - broken == set()
