"""CPU and memory of an instance: settings, stand-in and policy pack draw one line, each by itself."""

from __future__ import annotations

from typing import Any, Final

import pytest

from infra.values import load_settings
from policies.rules.containers import r19
from runtime.contract.settings.faults import SettingsError
from sandbox.world import SERVICE
from tests.support.policy_programs import Declared, Program
from tests.support.provider import SERVICE_INPUTS, changed, failures
from tests.support.stacks import SIGNING_KEY, stack_values

TAKEN: Final = (
    *(("1", "128Mi"), ("1", "512Mi"), ("1", "4096Mi"), ("1", "4Gi")),
    *(("2", "128Mi"), ("2", "4097Mi"), ("2", "8Gi")),
    *(("4", "2Gi"), ("4", "16Gi")),
    *(("6", "4Gi"), ("6", "24Gi")),
    *(("8", "4Gi"), ("8", "32Gi"), ("8", "32768Mi")),
)
REFUSED: Final = (
    *(("1", "1Mi"), ("1", "127Mi"), ("1", "4097Mi"), ("1", "99999Gi")),
    *(("2", "127Mi"), ("2", "8193Mi")),
    *(("4", "1Gi"), ("4", "2047Mi"), ("4", "16385Mi")),
    *(("6", "2Gi"), ("6", "4095Mi"), ("6", "25Gi")),
    *(("8", "1Gi"), ("8", "4095Mi"), ("8", "33Gi"), ("8", "32769Mi")),
)
"""CPUs and memory on both sides of each line of Cloud Run's tables."""


@pytest.mark.parametrize(
    ("cpu", "memory", "taken"),
    [*((*pair, True) for pair in TAKEN), *((*pair, False) for pair in REFUSED)],
    ids=str,
)
def test_settings_stand_in_and_pack_agree_on_what_an_instance_can_be(cpu: str, memory: str, *, taken: bool) -> None:
    inputs = changed(SERVICE_INPUTS, "template.containers.0.resources", {"limits": {"cpu": cpu, "memory": memory}})

    verdicts = {
        "settings": _settings_take({"cpu": cpu, "memory": memory}),
        "stand-in": failures(SERVICE, inputs) == [],
        "pack": Program([Declared(SERVICE, "worker", inputs)]).broken(rules=[r19]) == set(),
    }
    assert verdicts == dict.fromkeys(verdicts, taken)


def _settings_take(section: dict[str, Any]) -> bool:
    try:
        load_settings(stack_values(worker=section), {SIGNING_KEY}, "test")
    except SettingsError:
        return False
    return True


@pytest.mark.parametrize(
    ("cpu", "memory", "generation", "failure"),
    [
        ("1", "511Mi", "EXECUTION_ENVIRONMENT_GEN2", "memory: '511Mi' is refused; it must be 512Mi to 32Gi"),
        ("3", "4Gi", None, "cpu: '3' is refused; it must be 1, 2, 4, 6, 8 or 0.08 to 1"),
        ("79m", "512Mi", None, "cpu: '79m' is refused"),
        ("1500m", "512Mi", None, "cpu: '1500m' is refused"),
        ("1", "half", None, "memory: 'half' is refused; it must be 128Mi to 32Gi"),
        ("4", "1Gi", None, "memory: '1Gi' is refused; 4 CPU takes 2Gi to 16Gi"),
        ("500m", "5Gi", None, "memory: '5Gi' is refused; 500m CPU takes at most 4Gi"),
    ],
)
def test_what_cloud_run_refuses_of_a_containers_size(
    cpu: str, memory: str, generation: str | None, failure: str
) -> None:
    limits = changed(SERVICE_INPUTS, "template.containers.0.resources", {"limits": {"cpu": cpu, "memory": memory}})
    (found,) = failures(SERVICE, changed(limits, "template.executionEnvironment", generation))
    assert failure in found


@pytest.mark.parametrize(("cpu", "memory"), [("1000m", "512Mi"), ("2000m", "1G"), ("0.08", "256Mi"), (".5", "1Gi")])
def test_a_size_that_cloud_run_takes_in_another_spelling(cpu: str, memory: str) -> None:
    limits = {"limits": {"cpu": cpu, "memory": memory}}
    assert failures(SERVICE, changed(SERVICE_INPUTS, "template.containers.0.resources", limits)) == []
