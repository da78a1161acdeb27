"""Fixtures of the adapters' tests."""

from __future__ import annotations

import pytest

from tests.support.held_firestore import Store


@pytest.fixture
def store() -> Store:
    return Store()
