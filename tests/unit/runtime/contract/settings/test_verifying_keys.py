"""The keys that a service verifies with: its own, and a second one during a rotation; the same for every role."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID, PreviousKey, another_key_id
from runtime.contract.settings.worker import WorkerSettings
from tests.support.job_keys import pair
from tests.support.settings import ReadsEnvironment, api_env, codes, executor_env, faults, worker_env

PUB, KID = "BACKEND_PREVIOUS_PUB", "BACKEND_PREVIOUS_KID"
SECOND = pair("second")


@dataclass(frozen=True)
class Role:
    settings: ReadsEnvironment
    env: dict[str, str]

    def with_previous(self, pub: str | None = SECOND.public, kid: str | None = "k2") -> dict[str, str]:
        given = {PUB: pub, KID: kid}
        return {**self.env, **{name: value for name, value in given.items() if value is not None}}


ROLES = {
    "worker": Role(WorkerSettings, worker_env()),
    "api": Role(ApiSettings, api_env()),
    "executor": Role(ExecutorSettings, executor_env()),
}
every_role = pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)


def test_a_second_key_is_read_beside_the_first() -> None:
    env = {PUB: SECOND.public, KID: " k2 "}
    expected = PreviousKey(SECOND.public, "k2")
    assert WorkerSettings.from_env(worker_env(**env)).previous_key == expected
    assert ApiSettings.from_env(api_env(**env)).previous_key == expected
    assert ExecutorSettings.from_env(executor_env(**env)).previous_key == expected


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_without_one_there_is_the_current_key_alone(blank: str | None) -> None:
    settings = WorkerSettings.from_env(worker_env(BACKEND_PREVIOUS_PUB=blank, BACKEND_PREVIOUS_KID=blank))
    assert settings.previous_key is None
    assert not {PUB, KID} & settings.to_env().keys()


@every_role
@pytest.mark.parametrize(
    "value",
    [
        f" {SECOND.public}", f"{SECOND.public}\n", SECOND.public.rstrip("="), "cGVt", "AAAA", SECOND.private,
        SECOND.keys.public_pem,
    ],
)  # fmt: skip
def test_a_second_key_has_the_strict_form_of_the_first_and_is_not_repeated(role: Role, value: str) -> None:
    (fault,) = faults(role.settings, role.with_previous(pub=value))
    assert fault.code == "invalid_backend_pub"
    assert fault.detail.startswith(f"{PUB} is its value (hidden), but must be strict")
    assert value.strip()[:16] not in fault.detail


@every_role
@pytest.mark.parametrize("value", ["a b", "k/2", "ü", "k" * 129])
def test_the_id_of_a_second_key_has_the_form_of_the_first(role: Role, value: str) -> None:
    (fault,) = faults(role.settings, role.with_previous(kid=value))
    assert fault.code == "invalid_backend_kid"
    assert fault.detail.startswith(KID)


@every_role
@pytest.mark.parametrize("blank", [None, " "])
def test_half_of_a_second_key_is_refused_by_the_half_that_is_missing(role: Role, blank: str | None) -> None:
    (fault,) = faults(role.settings, role.with_previous(kid=blank))
    assert fault.code == "missing_configuration"
    assert fault.detail.startswith(f"{KID} is not set, but {PUB} is")
    (fault,) = faults(role.settings, role.with_previous(pub=blank))
    assert fault.code == "missing_configuration"
    assert fault.detail.startswith(f"{PUB} is not set, but {KID} is")


def test_every_fault_of_half_a_key_is_told() -> None:
    assert codes(WorkerSettings, worker_env(BACKEND_PREVIOUS_PUB="AAAA")) == [
        "missing_configuration",
        "invalid_backend_pub",
    ]


@every_role
@pytest.mark.parametrize("current", [DEFAULT_KEY_ID, another_key_id(DEFAULT_KEY_ID), "k2"])
def test_two_keys_cannot_have_one_id(role: Role, current: str) -> None:
    env = {**role.with_previous(kid=current), "BACKEND_KID": current}
    (fault,) = faults(role.settings, env)
    assert fault.code == "invalid_backend_kid"
    assert fault.detail.startswith(f"{KID} is '{current}', but must differ from BACKEND_KID")
    passing = fault.detail.rpartition(f"{KID}=")[2]
    role.settings.from_env({**env, KID: passing})


def test_the_default_id_is_the_current_keys_too() -> None:
    env = executor_env(BACKEND_PREVIOUS_PUB=SECOND.public, BACKEND_PREVIOUS_KID=DEFAULT_KEY_ID)
    assert codes(ExecutorSettings, env) == ["invalid_backend_kid"]
