"""The database of the worker that tracks files."""

from __future__ import annotations

import pytest

from runtime.contract.settings.worker import WorkerSettings
from tests.support.settings import faults, file_tracking_env, worker_env


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("GCP_POSTGRES_AUTH_MODE", None, "missing_configuration"),
        ("GCP_POSTGRES_AUTH_MODE", "IAM", "postgres_config"),
        ("GCP_POSTGRES_AUTH_MODE", " iam", "postgres_config"),
        ("GCP_POSTGRES_HOST", None, "missing_configuration"),
        ("GCP_POSTGRES_HOST", "8.8.8.8", "postgres_config"),
        ("GCP_POSTGRES_HOST", "127.0.0.1", "postgres_config"),
        ("GCP_POSTGRES_HOST", "10.0.0.1 ", "postgres_config"),
        ("GCP_POSTGRES_HOST", "172.32.0.1", "postgres_config"),
        ("GCP_POSTGRES_HOST", "::1", "postgres_config"),
        ("GCP_POSTGRES_HOST", "DB.cloudsql.goog", "postgres_config"),
        ("GCP_POSTGRES_HOST", "cloudsql.goog", "postgres_config"),
        ("GCP_POSTGRES_DATABASE", "é" * 32, "postgres_config"),
        ("GCP_POSTGRES_DATABASE", "a\x00b", "postgres_config"),
        ("GCP_POSTGRES_DATABASE", "usage ", "postgres_config"),
        ("GCP_POSTGRES_USER", "files@p-test.iam.gserviceaccount.com", "postgres_config"),
        ("GCP_POSTGRES_USER", "files@p-test", "postgres_config"),
        ("GCP_POSTGRES_USER", f"{'f' * 60}@p-test.iam", "postgres_config"),
        ("GCP_POSTGRES_USER", "", "empty_configuration"),
        ("GCP_POSTGRES_SERVER_CA", "", "empty_configuration"),
        ("GCP_POSTGRES_SERVER_CA", "text", "postgres_config"),
        ("GCP_POSTGRES_SERVER_CA", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----", "postgres_config"),
    ],
)
def test_a_database_that_is_not_private_or_not_by_identity_is_refused(name: str, value: str | None, code: str) -> None:
    found = faults(WorkerSettings, file_tracking_env(**{name: value}))
    assert [fault.code for fault in found] == [code]
    assert found[0].detail.startswith(name)


def test_the_full_e_mail_as_user_is_answered_with_the_user_to_take() -> None:
    (fault,) = faults(WorkerSettings, file_tracking_env(GCP_POSTGRES_USER="files@p-test.iam.gserviceaccount.com"))
    assert fault.detail.endswith("GCP_POSTGRES_USER=files@p-test.iam")


def test_certificates_may_have_their_line_breaks_escaped() -> None:
    escaped = r"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    sql = WorkerSettings.from_env(file_tracking_env(GCP_POSTGRES_SERVER_CA=escaped)).sql
    assert sql is not None
    assert sql.server_ca == "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "172.31.255.255", "192.168.0.1", "abc.def.europe-west1.sql.cloudsql.goog"]
)
def test_private_addresses_and_the_platforms_own_names_pass(host: str) -> None:
    sql = WorkerSettings.from_env(file_tracking_env(GCP_POSTGRES_HOST=host)).sql
    assert sql is not None
    assert sql.host == host


def test_other_workloads_have_no_database() -> None:
    assert WorkerSettings.from_env(worker_env(GCP_POSTGRES_HOST="8.8.8.8")).sql is None


@pytest.mark.parametrize("name", ["PGPASSWORD", "DATABASE_URL", "CLOUDSDK_API_ENDPOINT_OVERRIDES_SQLADMIN"])
def test_database_variables_of_other_tools_are_forbidden_to_it_alone(name: str) -> None:
    (fault,) = faults(WorkerSettings, file_tracking_env(**{name: ""}))
    assert fault.code.startswith("forbidden_")
    WorkerSettings.from_env(worker_env(**{name: ""}))
