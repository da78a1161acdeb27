"""The executor's settings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.contract.settings.executor import ExecutorSettings
from tests.support.job_keys import pair
from tests.support.settings import codes, executor_env, faults


def test_its_key_is_all_that_it_needs() -> None:
    assert ExecutorSettings.from_env(executor_env()) == ExecutorSettings(backend_pub=pair().public)


@pytest.mark.parametrize("value", ["1", "TRUE", "true", None])
def test_server_mode_may_be_said(value: str | None) -> None:
    """BR-54"""
    ExecutorSettings.from_env(executor_env(EXECUTOR_SERVER_MODE=value))


@pytest.mark.parametrize("value", ["", "yes", "0", "false", " true", "true "])
def test_any_other_mode_is_refused(value: str) -> None:
    """BR-54"""
    assert codes(ExecutorSettings, executor_env(EXECUTOR_SERVER_MODE=value)) == ["invalid_server_mode"]


@pytest.mark.parametrize("value", ["", "9090"])
def test_a_second_port_is_refused(value: str) -> None:
    assert codes(ExecutorSettings, executor_env(METRICS_PORT=value)) == ["forbidden_metrics_port"]


@pytest.mark.parametrize(("value", "seconds"), [("1", 1), ("3570", 3570), (None, 3540)])
def test_a_run_may_take_up_to_the_longest_request_less_its_settlement(value: str | None, seconds: int) -> None:
    settings = ExecutorSettings.from_env(executor_env(EXECUTOR_TIMEOUT_SECS=value))
    assert settings.run_timeout == timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["0", "3571", "3600"])
def test_a_run_that_could_not_be_settled_is_refused(value: str) -> None:
    (fault,) = faults(ExecutorSettings, executor_env(EXECUTOR_TIMEOUT_SECS=value))
    assert fault.code == "number_out_of_range"
    assert value in fault.detail
    assert "3570" in fault.detail


@pytest.mark.parametrize(
    "name",
    [
        "EXECUTOR_BATCH_INTERVAL_MS", "EXECUTOR_CALLBACK_TIMEOUT_MS", "EXECUTOR_TIMEOUT_SECS",
        "EXECUTOR_MAX_BATCH_SIZE", "EXECUTOR_CALLBACK_RETRIES", "PORT",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["48O", " 480", "-1", ""])
def test_a_number_that_another_parser_would_guess_is_refused(name: str, value: str) -> None:
    assert codes(ExecutorSettings, executor_env(**{name: value})) == ["invalid_number"]


def test_zero_is_a_number_and_never_means_no_limit() -> None:
    settings = ExecutorSettings.from_env(
        executor_env(
            EXECUTOR_BATCH_INTERVAL_MS="0", EXECUTOR_CALLBACK_TIMEOUT_MS="0", EXECUTOR_MAX_BATCH_SIZE="0",
            EXECUTOR_CALLBACK_RETRIES="0",
        )
    )  # fmt: skip
    assert settings.batch_interval == timedelta(0)
    assert settings.callback_timeout == timedelta(milliseconds=1)
    assert settings.batch_size == 1
    assert settings.callback_retries == 0


def test_more_retries_than_the_variable_can_hold_are_refused() -> None:
    assert codes(ExecutorSettings, executor_env(EXECUTOR_CALLBACK_RETRIES=str(2**32))) == ["number_out_of_range"]


def test_a_key_with_anything_around_it_is_refused() -> None:
    for value in (f" {pair().public}", f"{pair().public}\n", pair().public.rstrip("="), pair().private):
        assert codes(ExecutorSettings, executor_env(BACKEND_PUB=value)) == ["invalid_backend_pub"]
    assert codes(ExecutorSettings, {}) == ["missing_configuration"]
    assert codes(ExecutorSettings, {"BACKEND_PUB": "\n"}) == ["empty_configuration"]


def test_what_other_roles_are_told_is_not_its_business() -> None:
    env = executor_env(GCP_PROJECT_ID="p-test", EXECUTION_STATE_BACKEND="x", FIRESTORE_DATABASE="x", API_BASE_URL="x")
    assert ExecutorSettings.from_env(env).project_id == "p-test"


def test_forbidden_variables_come_first() -> None:
    env = executor_env(GOOGLE_SKIP_SIGNATURE="", GOOGLE_X_CUSTOM_ENDPOINT="x", PORT="0")
    assert codes(ExecutorSettings, env) == ["forbidden_endpoint_setting"] * 2 + ["number_out_of_range"]
