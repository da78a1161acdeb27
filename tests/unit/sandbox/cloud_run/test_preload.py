from __future__ import annotations

import importlib

import pytest

from sandbox.cloud_run.fork_launcher import PRELOAD, ROLES


@pytest.mark.parametrize("module", [ROLES, *PRELOAD])
def test_what_is_imported_ahead_exists(module: str) -> None:
    importlib.import_module(module)
