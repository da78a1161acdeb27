"""Environments that pass, to be spoiled one variable at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pytest

from runtime.contract.settings.faults import Fault, SettingsError
from tests.support.job_keys import pair

ACCOUNT = "push@p-test.iam.gserviceaccount.com"
AUDIENCE = "https://worker-abc-uc.a.run.app"


class ReadsEnvironment(Protocol):
    """A kind of settings."""

    def from_env(self, env: Mapping[str, str]) -> object: ...


def worker_env(**changes: str | None) -> dict[str, str]:
    """The worker of the field reports; None removes a variable."""
    return _changed(
        {
            "GCP_QUEUE_WORKLOAD": "execution",
            "GCP_PROJECT_ID": "p-test",
            "PUBSUB_SUBSCRIPTION": "exec-sub",
            "PUBSUB_PUSH_SERVICE_ACCOUNT": ACCOUNT,
            "PUBSUB_PUSH_AUDIENCE": AUDIENCE,
            "EXECUTOR_TIMEOUT_SECS": "540",
            "GCP_QUEUE_ACK_DEADLINE_SECS": "600",
            "GCP_QUEUE_REQUEST_TIMEOUT_SECS": "600",
            "GCP_QUEUE_PROCESS_TIMEOUT_SECS": "570",
            "BACKEND_PUB": pair().public,
            "API_BASE_URL": "https://api.example",
        },
        changes,
    )


def file_tracking_env(**changes: str | None) -> dict[str, str]:
    """A worker with a bucket and a database."""
    env = worker_env(GCP_QUEUE_WORKLOAD="file-tracking", BACKEND_PUB=None, API_BASE_URL=None)
    env |= {
        "GCP_CONTENT_BUCKET": "content-bkt",
        "GCP_POSTGRES_AUTH_MODE": "iam",
        "GCP_POSTGRES_HOST": "10.1.2.3",
        "GCP_POSTGRES_DATABASE": "usage",
        "GCP_POSTGRES_USER": "files@p-test.iam",
        "GCP_POSTGRES_SERVER_CA": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    }
    return _changed(env, changes)


def api_env(**changes: str | None) -> dict[str, str]:
    """The API with an executor."""
    return _changed(
        {
            "GCP_PROJECT_ID": "p-test",
            "API_BASE_URL": "https://api.example",
            "EXECUTION_TOPIC": "jobs",
            "BACKEND_KEY": pair().private,
            "BACKEND_PUB": pair().public,
            "EXECUTION_BACKEND": "http",
            "EXECUTOR_URL": "https://executor.example",
            "API_TICK_SERVICE_ACCOUNT": "tick@p-test.iam.gserviceaccount.com",
        },
        changes,
    )


def executor_env(**changes: str | None) -> dict[str, str]:
    """The executor with what it cannot do without."""
    return _changed({"BACKEND_PUB": pair().public}, changes)


def faults(settings: ReadsEnvironment, env: Mapping[str, str]) -> tuple[Fault, ...]:
    """What a kind of settings says against an environment."""
    with pytest.raises(SettingsError) as raised:
        settings.from_env(env)
    return raised.value.faults


def codes(settings: ReadsEnvironment, env: Mapping[str, str]) -> list[str]:
    """The codes of `faults`."""
    return [fault.code for fault in faults(settings, env)]


def _changed(env: dict[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**env, **changes}.items() if value is not None}
