"""Variables whose presence alone is fatal, role by role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import forbidden
from runtime.contract.forbidden import FORBIDDEN, Role, scan

EVERYONE = [
    "GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "HTTPS_PROXY", "https_proxy", "all_proxy",
    "GOOGLE_SERVICE_ACCOUNT_KEY", "SERVICE_ACCOUNT", "STORAGE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST",
    "FIRESTORE_EMULATOR_HOST", "DATASTORE_EMULATOR_HOST", "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_FIRESTORE", "GOOGLE_STORAGE_CUSTOM_ENDPOINT", "GOOGLE_FIRESTORE_CUSTOM_ENDPOINT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "grpc_proxy", "GOOGLE_CLOUD_UNIVERSE_DOMAIN",
]  # fmt: skip
NOT_WORKERS = [
    "GOOGLE_SKIP_SIGNATURE", "GOOGLE_PROXY_URL", "SECRET_MANAGER_EMULATOR_HOST", "GOOGLE_ANYTHING_CUSTOM_ENDPOINT",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_ANYTHING",
]  # fmt: skip
FILE_TRACKING_ONLY = ["DATABASE_URL", "PGPASSWORD", "PGOPTIONS", "CSQL_PROXY_TOKEN", "INSTANCE_CONNECTION_NAME"]
NOBODY = [
    "PATH", "PORT", "K_SERVICE", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CUSTOM_ENDPOINT", "XGOOGLE_A_CUSTOM_ENDPOINT",
    "GOOGLE_A_CUSTOM_ENDPOINTS", "MY_CLOUDSDK_API_ENDPOINT_OVERRIDES_X", "google_application_credentials", "no_proxy",
    "NO_PROXY", "HTTP_PROXY_", "PG",
]  # fmt: skip


def refused(name: str) -> set[Role]:
    return {role for role in Role if scan({name: ""}, role)}


@pytest.mark.parametrize("name", EVERYONE)
def test_what_redirects_identity_or_traffic_is_refused_by_every_role(name: str) -> None:
    """BR-135"""
    assert refused(name) == set(Role)


@pytest.mark.parametrize("name", NOT_WORKERS)
def test_open_ended_families_are_refused_by_shape_where_nothing_needs_them(name: str) -> None:
    assert refused(name) == {Role.API, Role.EXECUTOR}


@pytest.mark.parametrize("name", FILE_TRACKING_ONLY)
def test_database_variables_are_refused_where_a_database_is_used(name: str) -> None:
    assert refused(name) == {Role.FILE_TRACKING_WORKER}


@pytest.mark.parametrize("name", NOBODY)
def test_shapes_match_whole_names_and_nothing_else(name: str) -> None:
    assert refused(name) == set()


def test_every_fault_names_its_variable_and_never_its_value() -> None:
    found = scan({"http_proxy": "hunter2", "GOOGLE_CREDENTIALS": "hunter2", "OTHER": ""}, Role.EXECUTOR)
    assert [fault.detail.split()[0] for fault in found] == ["GOOGLE_CREDENTIALS", "http_proxy"]
    assert all("hunter2" not in fault.detail for fault in found)
    assert {fault.code for fault in found} == {"forbidden_credential_setting"}


def test_each_listed_name_is_listed_once_for_a_role() -> None:
    for role, families in FORBIDDEN.items():
        names = [name for family in families for name in family.names]
        assert len(names) == len(set(names)), role
    assert len(forbidden.DATABASE.names) == 29
    assert len(forbidden.CREDENTIALS.names) == 15


@given(st.dictionaries(st.text(max_size=60), st.text(max_size=10), max_size=8), st.sampled_from(Role))
def test_an_environment_of_anything_can_be_scanned(env: dict[str, str], role: Role) -> None:
    assert len(scan(env, role)) <= len(env)
