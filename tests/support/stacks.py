"""A stack's values that pass, to be spoiled one at a time, and runs of the real program on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.settings import StackSettings
from infra.values import load_settings
from runtime.contract.settings.faults import SettingsError
from tests.support.job_keys import pair

if TYPE_CHECKING:  # loads Pulumi, which only the tests of the engine pay for
    from sandbox.engine.deployment import Deployment
    from sandbox.engine.registration import Mutate

PROJECT = "p-test"
NUMBER = "123456789012"
REGION = "europe-west1"
SIGNING_KEY = "holdfast:signing_key"
WHOLE: Mapping[str, Any] = {
    "executor": {},
    "content": {},
    "usage_database": {},
    "artifact_repository": {},
    "traces_endpoint": "https://telemetry.googleapis.com",
}
"""Everything that a stack may leave out."""
IMAGE = f"europe-west1-docker.pkg.dev/p-test/holdfast/runtime@sha256:{'1' * 64}"


def stack_values(**changes: Any) -> dict[str, str]:
    """The least that a stack says, the signing key included; a change of None removes a key of `holdfast:`.

    Sections are given as mappings, and everything as the engine passes it.
    """
    values: dict[str, Any] = {
        "gcp:project": PROJECT,
        "gcp:region": REGION,
        "holdfast:project_number": NUMBER,
        "holdfast:image": IMAGE,
        "holdfast:deletion_protection": "false",
        SIGNING_KEY: pair().private,
    }
    values.update({name if ":" in name else f"holdfast:{name}": value for name, value in changes.items()})
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
        if value is not None
    }


def loaded(**changes: Any) -> StackSettings:
    """Settings of these values."""
    return load_settings(stack_values(**changes), {SIGNING_KEY}, "test")


def refused(**changes: Any) -> list[str]:
    """The lines with which these values are refused, codes included."""
    with pytest.raises(SettingsError) as caught:
        load_settings(stack_values(**changes), {SIGNING_KEY}, "test")
    return list(caught.value.lines)


def realised(
    world_dir: Path, mutate: Mutate | None = None, *, stack: str = "test", with_policies: bool = True, **changes: Any
) -> Deployment:
    """The real program, run in process on these values."""
    from sandbox.engine.embedded import realise
    from sandbox.engine.registration import unchanged

    values = stack_values(**changes)
    secrets = {SIGNING_KEY: values.pop(SIGNING_KEY)}
    return realise(
        values,
        secrets,
        stack=stack,
        world_dir=world_dir,
        mutate=mutate or unchanged,
        with_policies=with_policies,
    )
