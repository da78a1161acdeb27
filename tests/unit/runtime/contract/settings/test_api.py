"""The API's settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.faults import SettingsError
from runtime.contract.settings.words import ExecutionBackend
from tests.support.job_keys import pair
from tests.support.settings import api_env, codes, faults

HASH = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("GCP_PROJECT_ID", None, "missing_configuration"),
        ("API_BASE_URL", None, "missing_configuration"),
        ("API_BASE_URL", "https://api/", "invalid_base_url"),
        ("EXECUTION_TOPIC", None, "missing_configuration"),
        ("EXECUTION_TOPIC", "projects/other-p/topics/jobs", "invalid_topic"),
        ("EXECUTION_TOPIC", "projects/p-test/subscriptions/jobs", "invalid_topic"),
        ("BACKEND_KEY", None, "missing_configuration"),
        ("BACKEND_KEY", "", "empty_configuration"),
        ("BACKEND_KEY", "cGVt", "invalid_backend_key"),
        ("BACKEND_PUB", None, "missing_configuration"),
        ("EXECUTION_BACKEND", "grpc", "invalid_execution_backend"),
        ("EXECUTOR_URL", None, "missing_configuration"),
        ("EXECUTOR_URL", "http://executor", "invalid_executor_url"),
        ("EXECUTOR_AUTH", "none", "invalid_executor_auth"),
        ("EXECUTION_STATE_BACKEND", "redis", "invalid_state_backend"),
        ("API_REQUEST_TIMEOUT_SECS", "59", "number_out_of_range"),
        ("API_REQUEST_TIMEOUT_SECS", "3601", "number_out_of_range"),
        ("API_RUN_LEASE_SECS", "14", "number_out_of_range"),
        ("API_RUN_LEASE_SECS", "3601", "number_out_of_range"),
        ("API_JOB_TOKEN_LIFE_SECS", "1e5", "invalid_number"),
        ("API_RUN_TIMEOUT_MAX_SECS", "3571", "number_out_of_range"),
        ("API_EXECUTOR_TIMEOUT_MAX_SECS", "0", "number_out_of_range"),
        ("API_EXECUTOR_TIMEOUT_MAX_SECS", "3571", "number_out_of_range"),
        ("API_MAX_ATTEMPTS", "0", "number_out_of_range"),
        ("API_MAX_ATTEMPTS", "101", "number_out_of_range"),
        ("API_MAX_QUEUE_AGE_SECS", "59", "number_out_of_range"),
        ("API_RUN_RETENTION_SECS", "3599", "number_out_of_range"),
        ("API_RUN_RETENTION_SECS", "31536001", "number_out_of_range"),
        ("API_TICK_SERVICE_ACCOUNT", None, "missing_configuration"),
        ("API_TICK_SERVICE_ACCOUNT", "tick", "invalid_tick_service_account"),
        ("API_DEAD_LETTER_SERVICE_ACCOUNT", "x@y", "invalid_dead_letter_service_account"),
        ("API_KEY_HASHES", "shop", "invalid_api_key_hashes"),
        ("API_KEY_HASHES", f"shop={HASH},shop={HASH}", "invalid_api_key_hashes"),
        ("API_KEY_HASHES", f"shop={HASH.upper()}", "invalid_api_key_hashes"),
        ("API_KEY_HASHES", f"Shop={HASH}", "invalid_api_key_hashes"),
        ("GOOGLE_ANY_CUSTOM_ENDPOINT", "", "forbidden_endpoint_setting"),
    ],
)
def test_a_value_that_does_not_hold_is_refused_by_its_own_code(name: str, value: str | None, code: str) -> None:
    found = faults(ApiSettings, api_env(**{name: value}))
    assert [fault.code for fault in found] == [code]
    assert found[0].detail.startswith(name)


def test_defaults_are_those_of_the_design() -> None:
    settings = ApiSettings.from_env(api_env())
    assert settings.topic == "projects/p-test/topics/jobs"
    assert settings.request_timeout == timedelta(seconds=3600)
    assert settings.run_lease == timedelta(seconds=150)
    assert settings.job_token_life == timedelta(seconds=87300)
    assert settings.run_timeout_max == timedelta(seconds=540)
    assert settings.executor_timeout_max == timedelta(seconds=3540)
    assert settings.max_queue_age == timedelta(days=1)
    assert settings.run_retention == timedelta(days=7)
    assert dict(settings.engines) == {"flow": ""}
    assert not settings.key_hashes


def test_without_a_backend_no_executor_is_needed() -> None:
    settings = ApiSettings.from_env(api_env(EXECUTION_BACKEND=None, EXECUTOR_URL=None))
    assert settings.execution_backend is ExecutionBackend.NONE
    assert settings.executor_url is None


def test_a_run_that_is_waited_for_ends_before_the_api_is_cut() -> None:
    short = {"API_REQUEST_TIMEOUT_SECS": "600"}
    (fault,) = faults(ApiSettings, api_env(**short))
    assert fault.code == "executor_timeout_too_long"
    assert fault.detail.endswith("API_EXECUTOR_TIMEOUT_MAX_SECS=570")
    fitting = ApiSettings.from_env(api_env(**short, API_EXECUTOR_TIMEOUT_MAX_SECS="570"))
    assert fitting.executor_timeout_max == timedelta(seconds=570)
    alone = ApiSettings.from_env(api_env(**short, EXECUTION_BACKEND="none"))
    assert alone.executor_timeout_max == timedelta(seconds=3540), "nobody waits where there is no executor"


def test_callers_are_named_by_the_hash_of_their_key() -> None:
    settings = ApiSettings.from_env(api_env(API_KEY_HASHES=f"shop={HASH}, back-office={HASH[::-1]}"))
    assert dict(settings.key_hashes) == {"shop": HASH, "back-office": HASH[::-1]}


def test_the_signing_key_is_in_no_text_of_the_settings() -> None:
    settings = ApiSettings.from_env(api_env(API_KEY_HASHES=f"shop={HASH}"))
    assert pair().private not in repr(settings)
    assert HASH not in repr(settings)
    broken = pair().private[:-8] + "AAAAAAAA"
    (fault,) = faults(ApiSettings, api_env(BACKEND_KEY=broken))
    assert broken[:24] not in fault.detail


def test_a_program_may_be_planned_without_the_signing_key_and_no_process_may_start_so() -> None:
    planned = replace(ApiSettings.from_env(api_env()), backend_key=None)
    assert planned.validated() == planned
    assert "BACKEND_KEY" not in planned.to_env()
    assert codes(ApiSettings, planned.to_env()) == ["missing_configuration"]
    with pytest.raises(SettingsError, match="API_RUN_LEASE_SECS"):
        replace(planned, run_lease=timedelta(seconds=1)).validated()
