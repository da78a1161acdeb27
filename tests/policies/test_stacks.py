"""The repository's own stacks, and programs that are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policies.configuration import ConfigurationError
from policies.rule import Level
from policies.rules.privileges import NEEDED
from policies.verdict import judge
from policies.workload import Role
from sandbox.engine.embedded import realise
from sandbox.stack_file import read_stack_file
from tests.support.grant_table import ALWAYS, OF_KEY
from tests.support.job_keys import pair
from tests.support.policy_programs import (
    ACCOUNTS,
    CONFIGURATION,
    PROJECT,
    SERVICE,
    SUBSCRIPTION,
    TOPIC,
    Declared,
    Program,
    extended,
    grant,
    of_registrations,
    rendered,
)

ROOT = Path(__file__).parents[2]
WORKER, PUSH = "Service/execution-service", "Subscription/execution-push"


@pytest.mark.parametrize("stack", sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml")))
def test_the_stacks_of_the_repository_break_no_rule(tmp_path: Path, stack: str) -> None:
    values = read_stack_file(ROOT / f"Pulumi.{stack}.yaml")
    deployed = realise(values, {"holdfast:signing_key": pair().private}, stack=stack, world_dir=tmp_path)

    program = of_registrations(deployed.registrations, stack)

    found = judge(program.resources())
    assert [violation.message for violation in found] == []


def foreign(endpoint: str = "https://shop-worker-abc123-ew.a.run.app", **push: Any) -> Program:
    """A worker and its subscription as someone else would write them: little is said, and nothing is named by us."""
    service = Declared(
        SERVICE,
        "worker",
        {"location": "europe-west1", "template": {"containers": [{"image": "shop/worker:latest"}]}},
    )
    subscription = Declared(
        SUBSCRIPTION,
        "orders",
        {"topic": "orders", "pushConfig": {"pushEndpoint": endpoint}, **push},
        dependencies=(service.urn,),
        property_dependencies={"pushConfig": (service.urn,)},
    )
    return Program([service, Declared(TOPIC, "orders", {}), subscription])


def test_what_another_program_leaves_out_is_the_platforms_default() -> None:
    """BR-45: ten seconds, and a request that may take five minutes."""
    program = foreign()
    assert program.lines("T06") == ["orders: ackDeadlineSeconds is 10, but the service may answer after 300 s"]
    assert program.broken() >= {
        "T12",
        "D01",
        "D07",
        "D08",
        "D10",
        "I01",
        "I02",
        "X01",
        "R01",
        "R03",
        "R06",
        "S01",
        "L03",
    }
    assert foreign(ackDeadlineSeconds=300.0).lines("T06") == []


def test_rules_about_settings_of_ours_are_silent_where_there_are_none() -> None:
    ours = {"T01", "T02", "T03", "T04", "T05", "T07", "T08", "T09", "T10", "T15", "T17", "S03", "I05", "R14", "X02"}
    assert foreign().broken() & ours == set()


def test_a_pair_is_found_by_the_address_where_no_property_tells_it() -> None:
    program = rendered().unlinked(PUSH).with_(PUSH, "ackDeadlineSeconds", 60.0)
    assert {"T05", "T06"} <= program.broken()


def test_a_host_that_only_begins_like_a_service_is_another() -> None:
    wrong = "https://holdfast-execution-123456789012.europe-west1.run.app.example.com"
    broken = rendered().unlinked(PUSH).with_(PUSH, "pushConfig.pushEndpoint", wrong).broken()
    assert "X06" in broken


def test_short_topic_names_are_the_same_topics() -> None:
    program = rendered().unlinked(PUSH).with_(PUSH, "topic", "holdfast-execution-jobs")
    assert program.broken() == set()


def test_resources_that_leave_their_project_to_the_provider_are_found_by_name() -> None:
    program = rendered()
    for key in program.declared:
        program = program.unlinked(key)
        if key.partition("/")[0] in {"Topic", "Subscription"}:
            program = program.with_(key, "project", None)
    assert program.broken() == set()
    assert program.without("TopicIAMMember/execution-agent-dead-letters").broken() == {"D04"}
    assert program.with_("Service/api-service", "env.API_RUN_LEASE_SECS", "151").broken() == {"T07"}


def test_an_api_is_found_by_its_worker_where_its_topic_is_not_known() -> None:
    api = "Service/api-service"
    program = rendered().changed((api, "env.EXECUTION_TOPIC", None), (api, "env.API_JOB_TOKEN_LIFE_SECS", "600"))
    assert program.broken() == {"T15"}


def test_grants_on_the_project_count_for_what_is_in_it() -> None:
    """The grant is too wide, which is a rule of its own."""
    agent = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    wide = grant("iAMMember:IAMMember", "wide", "roles/pubsub.publisher", agent, package="projects", project=PROJECT)
    program = extended().without("TopicIAMMember/execution-agent-dead-letters").plus(wide)
    assert program.broken() == {"I18"}


def test_accounts_that_nothing_of_the_program_uses_are_advised_alone() -> None:
    """BR-83: what a build pushes images as, say, has roles on the project."""
    builds = grant("iAMMember:IAMMember", "ci", "roles/artifactregistry.writer", "serviceAccount:ci@x.example",
                   package="projects", project=PROJECT)  # fmt: skip
    found = judge(extended().plus(builds).resources(), CONFIGURATION)
    assert [(each.rule.id, each.level) for each in found] == [("I18", Level.ADVISORY)]


def test_a_role_or_a_person_that_a_program_needs_is_named() -> None:
    reads = grant("bucketIAMMember:BucketIAMMember", "reads", "roles/storage.objectViewer",
                  f"serviceAccount:holdfast-executor@{ACCOUNTS}", package="storage", bucket="inputs")  # fmt: skip
    rules = grant("bucketIAMMember:BucketIAMMember", "rules", "roles/storage.admin", "group:storage@example.com",
                  package="storage", bucket="inputs")  # fmt: skip
    other = grant("secretIamMember:SecretIamMember", "other", "roles/secretmanager.secretAccessor",
                  "user:someone@example.com", package="secretmanager", secretId="another")  # fmt: skip
    program = extended().plus(reads, rules, other)
    named = {"further_roles": ["roles/storage.object*"], "administrators": ["group:storage@example.com"]}
    assert len(program.lines("I17")) == 2
    assert program.broken({**CONFIGURATION, "I17": named}) == set()


def test_an_api_may_sign_in_its_own_name() -> None:
    """For links to objects."""
    api = f"holdfast-api@{ACCOUNTS}"
    itself = grant("iAMMember:IAMMember", "signs", "roles/iam.serviceAccountTokenCreator", f"serviceAccount:{api}",
                   package="serviceaccount", serviceAccountId=f"projects/{PROJECT}/serviceAccounts/{api}")  # fmt: skip
    assert extended().plus(itself).broken() == set()


def test_the_table_of_needed_roles_has_no_more_than_the_grants_of_a_whole_stack() -> None:
    """What the pack allows beyond the grant table is what a service says of itself, and what workers of files need."""
    roles = {"+-api": Role.API, "+-execution": Role.WORKER, "+-executor": Role.EXECUTOR}
    table = {(roles[who], role) for rows in (ALWAYS, *OF_KEY.values()) for who, role, _ in rows if who in roles}
    allowed = {(does, role.removeprefix("roles/")) for does, pairs in NEEDED.items() for role, _ in pairs}
    telling = {"artifactregistry.reader", "cloudtrace.agent", "logging.logWriter", "monitoring.metricWriter"}
    assert table <= allowed
    assert {pair for pair in allowed - table if pair[1] not in telling} == {
        (Role.WORKER, "cloudsql.client"),
        (Role.WORKER, "cloudsql.instanceUser"),
        (Role.WORKER, "storage.objectAdmin"),
        (Role.API, "iam.serviceAccountTokenCreator"),
    }


def test_what_is_called_labels_and_is_an_address_is_no_label() -> None:
    def channel(**inputs: Any) -> Program:
        return Program([Declared("gcp:monitoring/notificationChannel:NotificationChannel", "mail", inputs)])

    address = {"email_address": "on-call@example.com"}
    assert channel(labels=address, userLabels={"stack": "prod"}).broken() == set()
    assert channel(labels=address, userLabels={"Stack": "prod"}).broken() == {"L01"}


def test_a_rule_is_set_to_a_level_or_off() -> None:
    program = rendered().with_(WORKER, "template.containers.0.image", "shop/worker:latest")

    def level(configuration: dict[str, Any]) -> list[Level]:
        return [found.level for found in judge(program.resources(), {**CONFIGURATION, **configuration})]

    assert level({}) == [Level.MANDATORY]
    assert level({"R01": "advisory"}) == [Level.ADVISORY]
    assert level({"R01": {"enforcementLevel": "disabled"}}) == []
    assert level({"all": "advisory"}) == [Level.ADVISORY]
    assert level({"all": "advisory", "R01": {"enforcementLevel": "mandatory"}}) == [Level.MANDATORY]


def test_a_setting_of_a_rule_replaces_its_default() -> None:
    program = rendered().with_(WORKER, "template.scaling.maxInstanceCount", 21.0)
    assert program.broken() == set()
    assert program.broken({**CONFIGURATION, "R06": {"max_instances": 20}}) == {"R06"}


@pytest.mark.parametrize(
    "configuration", [{"T99": "advisory"}, {"R01": "sometimes"}, {"all": "no"}, {"R01": {"speed": 1}}]
)
def test_a_configuration_that_means_nothing_is_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        judge(rendered().resources(), configuration)
