"""The program that `pulumi up` runs, on the embedded engine.

Does not cover Google's own provider, nor the real engine's state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pulumi
import pytest

import infra.program
from infra.components.service import confirmed
from infra.naming import labels
from runtime.contract.names import INDEXES, TTL_COLLECTIONS, TTL_FIELD
from runtime.contract.settings.faults import Fault, SettingsError
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.engine.registration import without
from sandbox.stack_file import read_stack_file
from sandbox.world import DATABASE, FIELD, INDEX, SCHEDULER_JOB, SECRET, SERVICE, SUBSCRIPTION, TOPIC
from tests.support.job_keys import pair
from tests.support.stacks import NUMBER, PROJECT, REGION, SIGNING_KEY, WHOLE, realised

ROOT = Path(__file__).parents[2]
URNS = Path(__file__).with_name("urns.txt")
API = "holdfast-api"
API_URL = f"https://{API}-{NUMBER}.{REGION}.run.app"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("stack"))


def inputs_of(stack: Deployment, type_: str, name: str) -> dict[str, Any]:
    resource = stack.world.find(type_, name)
    assert resource is not None, f"{type_} {name} is not declared"
    return dict(resource.inputs)


def short(urns: tuple[str, ...]) -> list[str]:
    return sorted(urn.rpartition("::")[2] for urn in urns)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("whole"), **WHOLE)


def test_urns_are_the_known_ones(whole: Deployment) -> None:
    """BR-125: whoever renames a component or moves a resource must give it an alias, or it is replaced."""
    urns = sorted(registration.urn for registration in whole.registrations)
    assert urns == URNS.read_text().splitlines()


def test_a_section_less_leaves_every_other_urn_as_it_is(stack: Deployment, whole: Deployment) -> None:
    """BR-125."""
    assert {one.urn for one in stack.registrations} < {one.urn for one in whole.registrations}


def test_every_child_has_its_component_as_parent(whole: Deployment) -> None:
    """BR-125."""
    loose = [one.urn for one in whole.registrations if one.custom and "holdfast:infra:" not in one.urn]
    assert loose == []


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first, second = realised(tmp_path), realised(tmp_path)

    assert sorted(second.unchanged) == sorted(first.created)
    assert (second.created, second.updated, second.replaced, second.deleted) == ((), (), (), ())


@pytest.mark.parametrize(
    ("changes", "updated"),
    [
        ({"worker": {"run_timeout_seconds": 500}}, ["api-service", "execution-service"]),
        ({"worker": {"maximum_backoff_seconds": 300}}, ["execution-push"]),
        ({"worker": {"heartbeat_seconds": 20}}, ["api-service", "execution-service"]),
        ({"worker": {"max_instances": 3}}, ["execution-service"]),
        ({"api": {"request_timeout_seconds": 900}}, ["api-service"]),
        ({"log_level": "debug"}, ["api-service", "execution-service"]),
    ],
)
def test_one_changed_value_updates_what_depends_on_it_and_nothing_else(
    tmp_path: Path, changes: dict[str, Any], updated: list[str]
) -> None:
    realised(tmp_path)
    second = realised(tmp_path, **changes)

    assert short(second.updated) == updated
    assert (second.created, second.replaced, second.deleted) == ((), (), ())


def test_what_is_no_longer_declared_goes_dependents_first(tmp_path: Path) -> None:
    first = realised(tmp_path)
    dependencies = {resource.urn: resource.dependencies for resource in first.world}
    second = realised(tmp_path, name_prefix="blue")

    assert "execution-push" in short(second.deleted)
    for position, urn in enumerate(second.deleted):
        gone_before = set(second.deleted[:position])
        assert gone_before.isdisjoint(dependencies[urn]), f"{urn} was deleted after something that it depends on"


def test_settings_with_which_a_service_would_not_start_are_told_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the stack's own rules let through; a traceback would show the settings."""
    faults = [Fault("invalid_topic", "a topic"), Fault("invalid_duration", "a duration")]

    def refusing(_: object) -> NoReturn:
        raise SettingsError(faults)

    monkeypatch.setattr(infra.program, "deploy", refusing)
    with pytest.raises(DeploymentFailed) as caught:
        realised(tmp_path)
    assert list(caught.value.lines) == ["invalid_topic: a topic", "invalid_duration: a duration"]


def test_a_new_signing_key_is_a_new_version_before_the_old_one_goes(tmp_path: Path) -> None:
    """BR-128."""
    realised(tmp_path)
    other = pair("other")
    second = realised(tmp_path, signing_key=other.private)

    assert short(second.created) == short(second.deleted) == ["signing-version"]
    assert short(second.updated) == ["api-service", "execution-service"]
    envs = inputs_of(second, SERVICE, API)["template"]["containers"][0]["envs"]
    (reference,) = [env["valueSource"]["secretKeyRef"] for env in envs if env["name"] == "BACKEND_KEY"]
    assert reference == {"secret": "holdfast-signing-key", "version": "2"}


def test_no_input_holds_the_text_of_an_output(whole: Deployment) -> None:
    """BR-122."""
    texts = [text for resource in whole.world for text in _texts(resource.inputs)]

    assert len(texts) > 100
    assert [text for text in texts if "Calling __str__" in text or "pulumi.output" in text or "Output" in text] == []


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for member in members for text in _texts(member)]


def test_the_stack_says_where_things_are(stack: Deployment) -> None:
    assert stack.outputs == {
        "api_address": API_URL,
        "signing_public_key": pair().public,
        "api_service": API,
        "dead_letter_bucket": f"{PROJECT}-holdfast-dead-letters",
        "execution_topic": f"projects/{PROJECT}/topics/holdfast-execution-jobs",
        "execution_subscription": f"projects/{PROJECT}/subscriptions/holdfast-execution-push",
        "execution_dead_letter_subscription": f"projects/{PROJECT}/subscriptions/holdfast-execution-dead-letters",
    }
    assert stack.secret_outputs == frozenset()
    assert stack.warnings == ()


def test_a_wrong_project_number_is_found_once_the_platform_says_its_addresses() -> None:
    """BR-129."""
    assert confirmed([API_URL, "https://holdfast-api-abc-ew.a.run.app"], API_URL) == API_URL
    assert confirmed([], API_URL) == API_URL
    with pytest.raises(pulumi.RunError, match="compare holdfast:project_number"):
        confirmed(["https://holdfast-api-999999999999.europe-west1.run.app"], API_URL)


def test_faults_of_the_stack_are_told_before_any_resource_exists(tmp_path: Path) -> None:
    with pytest.raises(DeploymentFailed) as caught:
        realised(tmp_path, image="runtime:latest", worker={"run_timeout_seconds": 3000})

    assert [line.split(" ")[1] for line in caught.value.lines] == [
        "holdfast:image",
        "holdfast:worker.run_timeout_seconds",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_may_outlast_the_brokers_patience_is_warned_of(tmp_path: Path) -> None:
    worker = {"request_timeout_seconds": 1800, "run_timeout_seconds": 1700, "heartbeat_seconds": 30}
    (warning,) = realised(tmp_path, worker=worker).warnings
    assert warning.startswith("T06: GCP_QUEUE_PROCESS_TIMEOUT_SECS is 1770")


def test_the_state_store_has_what_the_services_query(stack: Deployment) -> None:
    fields = {(field.inputs["collection"], field.inputs["field"]) for field in stack.world.of_type(FIELD)}
    indexes = {
        (index.inputs["collection"], tuple((row["fieldPath"], row["order"]) for row in index.inputs["fields"]))
        for index in stack.world.of_type(INDEX)
    }

    assert fields == {(collection, TTL_FIELD) for collection in TTL_COLLECTIONS}
    assert all(field.inputs["ttlConfig"] == {} for field in stack.world.of_type(FIELD))
    assert indexes == set(INDEXES)


def test_a_prefix_goes_before_every_collection(tmp_path: Path) -> None:
    blue = realised(tmp_path, collection_prefix="blue-")
    declared = [resource.inputs["collection"] for type_ in (FIELD, INDEX) for resource in blue.world.of_type(type_)]
    assert all(collection.startswith("blue-") for collection in declared)


@pytest.mark.parametrize("protected", [True, False])
def test_protection_is_explicit_everywhere(tmp_path: Path, *, protected: bool) -> None:
    """BR-119."""
    stack = realised(tmp_path, deletion_protection=str(protected).lower())
    (database,) = stack.world.of_type(DATABASE)

    assert [service.inputs["deletionProtection"] for service in stack.world.of_type(SERVICE)] == [protected, protected]
    assert [secret.inputs["deletionProtection"] for secret in stack.world.of_type(SECRET)] == [protected]
    assert database.inputs["deleteProtectionState"] == f"DELETE_PROTECTION_{'ENABLED' if protected else 'DISABLED'}"
    assert database.protect is protected


def test_a_protected_stack_does_not_go(tmp_path: Path) -> None:
    """BR-119."""
    realised(tmp_path, deletion_protection="true")
    with pytest.raises(DeploymentFailed) as caught:
        realised(tmp_path, deletion_protection="true", name_prefix="blue")

    refused = {line.partition(" (")[0] for line in caught.value.lines}
    assert refused == {"state-database", "signing-secret", "execution-service", "api-service", "letters-bucket"}


def test_everything_is_in_the_one_region_and_labelled(stack: Deployment) -> None:
    """BR-134 and BR-138."""
    for type_, part in ((SERVICE, None), (TOPIC, "execution"), (SUBSCRIPTION, "execution"), (SECRET, "api")):
        for resource in stack.world.of_type(type_):
            expected = labels("test", part or ("api" if resource.name == API else "execution"))
            assert resource.inputs["labels"] == expected
    regions = {
        resource.inputs.get("location") or resource.inputs.get("locationId") or resource.inputs.get("region")
        for type_ in (SERVICE, DATABASE, SCHEDULER_JOB)
        for resource in stack.world.of_type(type_)
    }
    assert regions == {REGION}


def test_a_test_can_take_one_grant_away(tmp_path: Path) -> None:
    grant = ("gcp:cloudrunv2/serviceIamMember:ServiceIamMember", "execution-push-invokes")
    full, less = realised(tmp_path / "full"), realised(tmp_path / "less", without([grant]), with_policies=False)
    assert len(full.world) - len(less.world) == 1


@pytest.mark.parametrize("name", ["local", "dev", "prod"])
def test_the_stack_files_of_the_repository_hold(tmp_path: Path, name: str) -> None:
    values = read_stack_file(ROOT / f"Pulumi.{name}.yaml")
    deployment = realise(values, {SIGNING_KEY: pair().private}, stack=name, world_dir=tmp_path)

    assert len(deployment.world.of_type(SERVICE)) == 3
    assert deployment.warnings == ()
