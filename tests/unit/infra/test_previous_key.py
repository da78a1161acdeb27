"""The second key of a rotation, as a stack says it: whole or not at all, under an id of its own, told to every role."""

from __future__ import annotations

from typing import Any

import pytest

from infra.alignment import Plans, align
from infra.roles import api_settings, executor_settings, worker_settings
from infra.sections.executor import ExecutorPlan
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID, PreviousKey
from runtime.contract.settings.words import Workload
from tests.support.job_keys import pair
from tests.support.stacks import loaded, refused

KEY, ID = "holdfast:previous_signing_public_key", "holdfast:previous_signing_key_id"
SECOND = pair("second")


def with_previous(**changes: Any) -> dict[str, Any]:
    return {"previous_signing_public_key": SECOND.public, "previous_signing_key_id": "k2", **changes}


def test_every_role_is_told_the_same_second_key_or_none() -> None:
    for values, expected in ((with_previous(), PreviousKey(SECOND.public, "k2")), ({}, None)):
        plan = loaded(executor={}, **values)
        facts = align(Plans(plan.worker, plan.api, plan.executor))
        assert worker_settings(plan, Workload.EXECUTION, facts).previous_key == expected
        assert api_settings(plan, facts).previous_key == expected
        assert executor_settings(plan, plan.executor or ExecutorPlan()).previous_key == expected


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"previous_signing_public_key": "eHg="}, f"{KEY} is its value (hidden), but must be strict"),
        ({"previous_signing_public_key": ""}, f"{KEY} is its value (hidden), but must be strict"),
        ({"previous_signing_key_id": "a b"}, f"{ID} is 'a b', but must be 1 to 128 characters"),
        ({"previous_signing_key_id": None}, f"{ID} is not set, but must be where {KEY} is"),
        ({"previous_signing_public_key": None}, f"{KEY} is not set, but must be where {ID} is"),
        (
            {"previous_signing_key_id": DEFAULT_KEY_ID},
            f"{ID} is '{DEFAULT_KEY_ID}', but must differ from holdfast:signing_key_id: ",
        ),
        ({"signing_key_id": "k2"}, f"{ID} is 'k2', but must differ from holdfast:signing_key_id: "),
    ],
)
def test_a_second_key_that_would_not_serve_is_refused_with_what_would(changes: dict[str, Any], says: str) -> None:
    (line,) = refused(**with_previous(**changes))
    assert line.split(": ", 1)[1].startswith(says)
    assert "would be refused" in line, "the damage"
    passing = line.rpartition("for example ")[2].removeprefix(f"{ID}: ").removesuffix(", or leave out both")
    assert passing
    if says.startswith(ID):
        loaded(**with_previous(**{**changes, "previous_signing_key_id": passing}))


def test_the_current_key_is_not_its_own_predecessor() -> None:
    """It would be after the commands of a rotation have been run twice, and jobs of the old key would be refused."""
    (line,) = refused(**with_previous(previous_signing_public_key=pair().public))
    assert line.startswith(f"invalid_stack_value: {KEY} is the public half of holdfast:signing_key, but must be that")
    assert "the key that signed before the change" in line


@pytest.mark.parametrize("name", ["signing_public_key", "previous_signing_public_key"])
def test_a_private_key_under_the_key_of_a_public_one_is_not_repeated(name: str) -> None:
    (line,) = refused(**with_previous(**{name: pair().private}))
    assert pair().private[:16] not in line
