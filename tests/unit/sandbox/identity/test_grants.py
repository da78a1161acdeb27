"""Grants are read from the world as it is now, and a missing one is reported once a minute."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from sandbox.identity.grants import Grants
from sandbox.world import Kind, Target, World
from tests.support.worlds import API, empty_world, may_publish

ROLES = ("roles/pubsub.publisher",)
JOBS = Target(Kind.TOPIC, "jobs")
MEMBER = f"serviceAccount:{API}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return empty_world(tmp_path)


def test_a_grant_counts_as_soon_as_it_is_declared_and_no_longer(world: World) -> None:
    grants = Grants(world, ManualClock())
    assert grants.missing(MEMBER, ROLES, JOBS) is not None
    may_publish(world, "jobs")
    assert grants.missing(MEMBER, ROLES, JOBS) is None
    world.remove("gcp:pubsub/topicIAMMember:TopicIAMMember", f"publish-jobs-{MEMBER}")
    assert grants.missing(MEMBER, ROLES, JOBS) is not None


async def test_a_missing_grant_is_named_in_a_warning_once_a_minute(world: World) -> None:
    clock = ManualClock()
    grants = Grants(world, clock)
    with capture_logs() as logs:
        assert not grants.allow(MEMBER, ROLES, JOBS, step="publishing")
        await clock.advance(59)
        assert not grants.allow(MEMBER, ROLES, JOBS, step="publishing")
        await clock.advance(1)
        assert not grants.allow(MEMBER, ROLES, JOBS, step="publishing")
    assert [entry["event"] for entry in logs] == ["grant_missing", "grant_missing"]
    assert logs[0]["grant"] == f"missing grant: roles/pubsub.publisher on topic jobs for {MEMBER}"
    assert logs[0]["step"] == "publishing"


async def test_two_missing_grants_are_reported_each(world: World) -> None:
    grants = Grants(world, ManualClock())
    with capture_logs() as logs:
        grants.allow(MEMBER, ROLES, JOBS, step="a")
        grants.allow(MEMBER, ROLES, Target(Kind.TOPIC, "other"), step="b")
    assert len(logs) == 2


def test_a_held_grant_is_not_mentioned(world: World) -> None:
    may_publish(world, "jobs")
    with capture_logs() as logs:
        assert Grants(world, ManualClock()).allow(MEMBER, ROLES, JOBS, step="publishing")
    assert logs == []
