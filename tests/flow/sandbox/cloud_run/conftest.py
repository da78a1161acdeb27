"""Both ways to start an instance, for the tests that are about processes."""

from __future__ import annotations

import pytest

from sandbox.cloud_run.process import SpawnLauncher
from tests.support import cloud_run


@pytest.fixture(params=["forked", "spawned"])
def either_launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with instances that are forked, and again with an interpreter for each."""
    if request.param == "spawned":
        monkeypatch.setattr(cloud_run, "new_launcher", lambda: SpawnLauncher(cloud_run.TEST_ROLE))
    return str(request.param)
