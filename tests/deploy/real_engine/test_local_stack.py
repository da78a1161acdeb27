"""The local stack as the real engine brings it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.engine.deployment import Engine
from sandbox.engine.registration import without
from sandbox.local_stack import LocalStackFailed
from tests.support.local import local_stack
from tests.support.real_engine import binary


@pytest.fixture(scope="module")
def _binary() -> None:
    binary()


@pytest.mark.usefixtures("_binary")
async def test_a_job_runs_on_what_the_real_engine_declared(tmp_path: Path) -> None:
    """The signing key, which is in the engine's state only, reaches the services."""
    async with local_stack(tmp_path, engine=Engine.PULUMI) as running:
        run, _ = await running.ended((await running.submit())["run_id"])
        assert run["state"] == "succeeded", running.logs.text()
        assert len(running.stack.deployment.created) > 20


async def test_only_the_embedded_engine_lets_a_test_change_what_is_declared(tmp_path: Path) -> None:
    with pytest.raises(LocalStackFailed, match="embedded engine only"):
        async with local_stack(tmp_path, mutate=without([("a", "b")]), engine=Engine.PULUMI):
            pass
