"""What a stack may say, and what a refusal tells: key, value, rule, damage, and a value that would pass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.fields import explanation_of
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from infra.values import load_settings
from runtime.contract.settings.faults import SettingsError
from runtime.contract.settings.words import LogLevel, PushAuth, Workload
from tests.support.job_keys import pair
from tests.support.stacks import IMAGE, NUMBER, SIGNING_KEY, loaded, refused, stack_values


def test_the_least_that_a_stack_says_is_enough() -> None:
    settings = loaded()

    assert settings.workloads == (Workload.EXECUTION,)
    assert settings.engines == {"flow": ""}
    assert settings.http_hosts is None
    assert settings.worker == WorkerPlan()
    assert settings.api == ApiPlan()
    assert settings.executor is None, "an executor is asked for, with an empty section at least"
    assert loaded(executor={}).executor == ExecutorPlan()
    assert settings.worker.run_timeout == timedelta(seconds=540)


def test_everything_is_protected_unless_a_stack_says_otherwise() -> None:
    assert loaded(deletion_protection=None).deletion_protection is True
    assert loaded(deletion_protection="false").deletion_protection is False


def test_values_are_read_as_what_they_mean() -> None:
    settings = loaded(
        worker={"run_timeout_seconds": 60, "push_auth": "in_process", "max_attempts": 5},
        api={"key_hashes": {"shop": "a" * 64}},
        engines={"report": "acme.reports:run"},
        http_hosts=["api.example.com", "*.example.org"],
        log_level="debug",
        name_prefix="blue",
        collection_prefix="blue-",
    )

    assert settings.worker.run_timeout == timedelta(seconds=60)
    assert settings.worker.push_auth is PushAuth.IN_PROCESS
    assert settings.worker.max_attempts == 5
    assert settings.api.key_hashes == {"shop": "a" * 64}
    assert settings.engines == {"flow": "", "report": "acme.reports:run"}
    assert settings.http_hosts == ("api.example.com", "*.example.org")
    assert settings.log_level is LogLevel.DEBUG
    assert settings.names.api == "blue-api"
    assert settings.collection_prefix == "blue-"


def test_other_namespaces_are_not_ours_to_judge() -> None:
    values = stack_values() | {"gcp:impersonateServiceAccount": "x@y", "pulumi:tags": "{}"}
    assert load_settings(values, {SIGNING_KEY}, "test") == loaded()


FAULTY: list[tuple[str, Any, str, str]] = [
    ("gcp:project", "P-Test", "gcp:project", "'P-Test'"),
    ("gcp:project", "123456789012", "gcp:project", "'123456789012'"),
    ("gcp:region", "europe", "gcp:region", "'europe'"),
    ("project_number", "p-test", "holdfast:project_number", "'p-test'"),
    (
        "image",
        "europe-docker.pkg.dev/p/h/runtime:latest",
        "holdfast:image",
        "'europe-docker.pkg.dev/p/h/runtime:latest'",
    ),
    ("name_prefix", "a" * 14, "holdfast:name_prefix", "'aaaaaaaaaaaaaa'"),
    ("collection_prefix", "a/b", "holdfast:collection_prefix", "'a/b'"),
    ("deletion_protection", "yes", "holdfast:deletion_protection", "'yes'"),
    ("signing_key_id", "a b", "holdfast:signing_key_id", "'a b'"),
    ("gcp:region", "mars-north9", "gcp:region", "'mars-north9'"),
    ("log_level", "loud", "holdfast:log_level", "'loud'"),
    ("traces_endpoint", "http://x", "holdfast:traces_endpoint", "'http://x'"),
    ("workloads", [], "holdfast:workloads", "[]"),
    ("workloads", ["execution", "execution"], "holdfast:workloads", '["execution", "execution"]'),
    ("workloads", ["sorting"], "holdfast:workloads", '["sorting"]'),
    ("workloads", "execution", "holdfast:workloads", "'execution'"),
    ("http_hosts", [], "holdfast:http_hosts", "[]"),
    ("http_hosts", "api.example.com", "holdfast:http_hosts", "'api.example.com'"),
    ("http_hosts", ["https://a.example/x"], "holdfast:http_hosts", '["https://a.example/x"]'),
    ("http_hosts", [443], "holdfast:http_hosts", "[443]"),
    ("engines", {"flow": "a:b"}, "holdfast:engines", '{"flow": "a:b"}'),
    ("engines", {"a=x:y,d": "e:f"}, "holdfast:engines", '{"a=x:y,d": "e:f"}'),
    ("engines", {"report": "acme.reports"}, "holdfast:engines", '{"report": "acme.reports"}'),
    ("worker", [540], "holdfast:worker", "[540]"),
    ("worker", "{", "holdfast:worker", "'{'"),
    ("worker", {"run_timeout_seconds": 0}, "holdfast:worker.run_timeout_seconds", "0"),
    ("worker", {"run_timeout_seconds": "540"}, "holdfast:worker.run_timeout_seconds", "'540'"),
    ("worker", {"run_timeout_seconds": 540.5}, "holdfast:worker.run_timeout_seconds", "540.5"),
    ("worker", {"run_timeout_seconds": None}, "holdfast:worker.run_timeout_seconds", "not set"),
    ("worker", {"run_timeout_seconds": 10**30}, "holdfast:worker.run_timeout_seconds", str(10**30)),
    ("worker", {"request_timeout_seconds": 3601}, "holdfast:worker.request_timeout_seconds", "3601"),
    ("worker", {"max_attempts": True}, "holdfast:worker.max_attempts", "true"),
    ("worker", {"push_auth": "none"}, "holdfast:worker.push_auth", "'none'"),
    ("worker", {"cpu": "500m"}, "holdfast:worker.cpu", "'500m'"),
    ("worker", {"memory": "1GB"}, "holdfast:worker.memory", "'1GB'"),
    ("api", {"run_retention_seconds": 60}, "holdfast:api.run_retention_seconds", "60"),
    ("executor", True, "holdfast:executor", "true"),
    ("executor", {"run_timeout_seconds": 3571}, "holdfast:executor.run_timeout_seconds", "3571"),
    ("executor", {"run_timeout_seconds": 0}, "holdfast:executor.run_timeout_seconds", "0"),
    ("executor", {"concurrency": 1001}, "holdfast:executor.concurrency", "1001"),
]


@pytest.mark.parametrize(("name", "value", "key", "shown"), FAULTY)
def test_a_value_that_does_not_hold_is_refused_with_what_would(name: str, value: Any, key: str, shown: str) -> None:
    (line,) = refused(**{name: value})

    assert line.split(": ", 1)[1].startswith(f"{key} is {shown}, but must"), "key, value, rule"
    assert ": " in line.partition(", but must")[2], "the damage"
    assert f"; for example {key}: " in line, "a value that would pass"
    assert "\n" not in line


@pytest.mark.parametrize(("section", "model"), [("worker", WorkerPlan), ("api", ApiPlan), ("executor", ExecutorPlan)])
def test_the_value_that_a_refusal_names_does_pass(
    section: str, model: type[WorkerPlan | ApiPlan | ExecutorPlan]
) -> None:
    for name, field in model.model_fields.items():
        passing = explanation_of(field).passing.replace("(the hash that `holdfast keys new shop` prints)", "0" * 64)
        loaded(**{section: {str(field.validation_alias or name): yaml.safe_load(passing)}})


@pytest.mark.parametrize("name", ["gcp:project", "gcp:region", "project_number", "image"])
def test_a_required_value_that_is_missing_is_named(name: str) -> None:
    (line,) = refused(**{name: None})

    key = name if ":" in name else f"holdfast:{name}"
    assert line.startswith(f"missing_stack_value: {key} is not set, but must ")
    assert f"; for example {key}: " in line


@pytest.mark.parametrize(
    ("changes", "key", "instead"),
    [
        ({"imag": "x"}, "holdfast:imag", "use holdfast:image"),
        ({"project": "p-test"}, "holdfast:project", "use gcp:project"),
        ({"worker": {"run_timeout": 540}}, "holdfast:worker.run_timeout", "use holdfast:worker.run_timeout_seconds"),
        ({"api": {"zzzzzz": 1}}, "holdfast:api.zzzzzz", "use one of concurrency, cpu, key_hashes"),
        ({"stack": "prod"}, "holdfast:stack", "use "),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(changes: dict[str, Any], key: str, instead: str) -> None:
    (line,) = refused(**changes)

    assert line.startswith(f"unknown_stack_key: {key} is no setting")
    assert "would have no effect" in line
    assert instead in line


def test_a_workload_that_is_not_built_yet_says_so() -> None:
    (line,) = refused(workloads=["execution", "compilation"])

    assert line.startswith("workload_not_built: holdfast:workloads has compilation, which is not built yet")
    assert 'holdfast:workloads: ["execution"] would pass' in line


def test_every_fault_is_told_at_once() -> None:
    lines = refused(
        image="runtime:latest",
        project_number=None,
        imag="x",
        workloads=["execution", "compilation"],
        worker={"run_timeout_seconds": 0, "run_timeout": 540, "claim_retention_seconds": 3600},
        api={"max_instances": 0},
    )

    keys = {line.split(" ")[1] for line in lines}
    assert keys == {
        "holdfast:image",
        "holdfast:project_number",
        "holdfast:imag",
        "holdfast:workloads",
        "holdfast:worker.run_timeout_seconds",
        "holdfast:worker.run_timeout",
        "holdfast:worker.claim_retention_seconds",
        "holdfast:api.max_instances",
    }
    assert len(lines) == len(keys)


def test_a_signing_key_in_plain_text_is_refused() -> None:
    """BR-126."""
    with pytest.raises(SettingsError) as caught:
        load_settings(stack_values(), set(), "test")

    (line,) = caught.value.lines
    assert line.startswith("plain_stack_secret: holdfast:signing_key is in plain text")
    assert "pulumi config set --secret holdfast:signing_key" in line


@pytest.mark.parametrize("value", ["c2VjcmV0LXZhbHVl", pair().public])
def test_secrets_are_never_repeated(value: str) -> None:
    (line,) = refused(signing_key=value)

    assert "its value (hidden)" in line
    assert value not in line
    assert pair().private not in repr(loaded())


def test_hashes_of_keys_are_never_repeated() -> None:
    digest = "b" * 63
    (line,) = refused(api={"key_hashes": {"shop": digest}})

    assert digest not in line
    assert "a" * 64 not in repr(loaded(api={"key_hashes": {"shop": "a" * 64}}))


@given(st.dictionaries(st.text(max_size=20), st.one_of(st.text(max_size=20), st.integers(), st.none()), max_size=5))
def test_no_section_whatever_ends_in_anything_but_settings_or_refusals(section: dict[str, Any]) -> None:
    lines: tuple[str, ...] = ()
    try:
        loaded(worker=section)
    except SettingsError as error:
        lines = error.lines
    assert all("\n" not in line for line in lines)


def test_order_of_workloads_does_not_matter() -> None:
    """BR-133."""
    assert loaded(workloads=["execution"]) == loaded()
    assert loaded(image=IMAGE).image == IMAGE


@pytest.mark.parametrize("project", [NUMBER, "P-Test", "projects/p-test"])
def test_a_project_is_given_by_its_id(project: str) -> None:
    """BR-129: with its number, every e-mail of an account would be wrong."""
    (line,) = refused(**{"gcp:project": project})
    assert line.startswith(f"invalid_stack_value: gcp:project is '{project}'")


def test_a_project_number_is_no_id() -> None:
    """BR-129."""
    (line,) = refused(project_number="p-test")
    assert "gcloud projects describe PROJECT" in line
