"""How a run fails, what it answers, and what tests can do to it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest

from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.registration import Registration, without
from sandbox.world import SUBSCRIPTION
from tests.support.programs import TOPIC_URN, lines_of, one_topic, run, two_pipes


def test_two_resources_with_one_urn_are_refused(tmp_path: Path) -> None:
    def twice() -> None:
        gcp.pubsub.Topic("jobs", name="one-topic")
        gcp.pubsub.Topic("jobs", name="other-topic")

    (line,) = lines_of(twice, tmp_path)
    assert (
        line == f"jobs (gcp:pubsub/topic:Topic): is declared twice, both as {TOPIC_URN}; give one of them another name"
    )


def test_two_resources_with_one_physical_name_are_refused(tmp_path: Path) -> None:
    def twice() -> None:
        gcp.pubsub.Topic("one", name="jobs")
        gcp.pubsub.Topic("other", name="jobs")

    (line,) = lines_of(twice, tmp_path)
    assert "other (gcp:pubsub/topic:Topic): gcp:pubsub/topic:Topic jobs already exists" in line


def test_a_refused_registration_is_reported_itself_and_not_through_its_dependents(tmp_path: Path) -> None:
    def program() -> None:
        topic = gcp.pubsub.Topic("jobs", name="goog")
        subscription = gcp.pubsub.Subscription("sub", name="sub", topic=topic.id)
        pulumi.export("id", subscription.id)

    (line,) = lines_of(program, tmp_path)
    assert line.startswith("jobs (gcp:pubsub/topic:Topic): name: 'goog' is refused")


def test_a_failed_run_leaves_the_world_as_it_was(tmp_path: Path) -> None:
    first = run(two_pipes, tmp_path)
    saved = (tmp_path / "world.json").read_bytes()
    before = list(first.world)

    lines_of(two_pipes, tmp_path, {"ack": "601"})
    with pytest.raises(DeploymentFailed):
        run(two_pipes, tmp_path, {"ack": "601"}, before=first.world)

    assert (tmp_path / "world.json").read_bytes() == saved
    assert list(first.world) == before


def test_a_program_that_fails_is_told_in_one_line_and_keeps_its_cause(tmp_path: Path) -> None:
    def broken() -> None:
        raise LookupError("no such thing")

    with pytest.raises(DeploymentFailed) as caught:
        run(broken, tmp_path)

    assert caught.value.lines == ("the program failed: LookupError: no such thing",)
    assert isinstance(caught.value.__cause__, LookupError)
    assert not (tmp_path / "world.json").exists()


def test_a_program_that_refuses_to_run_is_told_line_by_line(tmp_path: Path) -> None:
    def refusing() -> None:
        raise pulumi.RunError("first fault\nsecond fault")

    assert lines_of(refusing, tmp_path) == ("first fault", "second fault")


def test_an_error_that_the_program_logs_fails_the_run_and_a_warning_does_not(tmp_path: Path) -> None:
    def logging() -> None:
        pulumi.log.warn("think again")
        pulumi.log.info("by the way")
        if pulumi.Config().get_bool("bad"):
            pulumi.log.error("no good")

    assert run(logging, tmp_path).warnings == ("think again",)
    assert lines_of(logging, tmp_path, {"bad": "true"}) == ("no good",)


def test_functions_of_the_provider_are_answered(tmp_path: Path) -> None:
    def program() -> None:
        pulumi.export("number", gcp.organizations.get_project(project_id="p-test").number)

    def foreign() -> None:
        gcp.organizations.get_project_output(project_id="p-other")

    assert run(program, tmp_path).outputs == {"number": "123456789012"}
    (line,) = lines_of(foreign, tmp_path)
    assert "project p-other is not this world's project p-test" in line


def test_what_the_engine_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    def reading() -> None:
        gcp.pubsub.Topic.get("jobs", "projects/p-test/topics/jobs")

    def providing() -> None:
        gcp.Provider("other", project="p-other")

    assert "jobs (gcp:pubsub/topic:Topic): cannot be read by id" in lines_of(reading, tmp_path)[0]
    assert (
        "other (pulumi:providers:gcp): the embedded engine has the stack's own provider only"
        in (lines_of(providing, tmp_path)[0])
    )


def test_a_test_can_drop_a_registration_and_the_program_does_not_notice(tmp_path: Path) -> None:
    grant = ("gcp:pubsub/topicIAMMember:TopicIAMMember", "first-grant")
    deployment = run(two_pipes, tmp_path, mutate=without([grant]))

    assert len(deployment.world) == 7
    assert grant not in {(one.type, one.name) for one in deployment.registrations}
    assert len(run(two_pipes, tmp_path).created) == 1


def test_a_test_can_change_a_registration(tmp_path: Path) -> None:
    def slower(registration: Registration) -> Registration:
        if registration.type != SUBSCRIPTION:
            return registration
        return replace(registration, inputs={**registration.inputs, "ackDeadlineSeconds": 601})

    with pytest.raises(DeploymentFailed, match="601 is refused"):
        run(two_pipes, tmp_path, mutate=slower)


def test_registrations_say_where_their_values_come_from(tmp_path: Path) -> None:
    registrations = {one.name: one for one in run(two_pipes, tmp_path).registrations}
    subscription, topic = registrations["first-sub"], registrations["first-topic"]

    assert subscription.property_dependencies == {"topic": (topic.urn,)}
    assert topic.urn in subscription.dependencies
    assert subscription.parent == registrations["first"].urn
    assert registrations["first"].custom is False


async def test_it_runs_beside_a_running_loop(tmp_path: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    deployment = await asyncio.to_thread(run, one_topic, tmp_path)
    ticking.cancel()

    assert deployment.created == (TOPIC_URN,)
    assert ticks > 1, "the caller's loop went on"


def test_threads_take_turns(tmp_path: Path) -> None:
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(run(two_pipes, tmp_path / str(number))))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [len(result.created) for result in results] == [8, 8, 8]
