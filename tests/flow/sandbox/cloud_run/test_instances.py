"""Instances as processes: their environment, their start, their end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from runtime.adapters.clock import ManualClock
from sandbox.cloud_run.front import Options
from sandbox.world import SECRET_VERSION, Resource
from tests.support.cloud_run import Front, account, front, grant, new_world, service
from tests.support.processes import command_lines, gone
from tests.support.waiting import until

T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("either_launcher")


async def test_an_instance_sees_the_declared_environment_and_nothing_else() -> None:
    world = new_world()
    world.put(service("api", env={"LOG_LEVEL": "debug", "EMPTY": ""}))
    async with front(world) as it:
        about = await it.json("api", "/about")
    expected = {"LOG_LEVEL": "debug", "EMPTY": "", "PORT": "8080", "K_SERVICE": "api", "K_REVISION": "api-00001"}
    assert about["environment"] == expected
    assert about["declared"] == expected


async def test_an_instance_has_a_folder_of_its_own_that_goes_with_it() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        folder = Path((await it.json("api", "/about"))["cwd"])
        assert await asyncio.to_thread(folder.exists)
    assert not await asyncio.to_thread(folder.parent.exists)


def with_secret(*, granted: bool) -> tuple[Resource, ...]:
    reference = {"secretKeyRef": {"secret": "backend-key", "version": "latest"}}
    wanted = service("api", container={"envs": [{"name": "BACKEND_KEY", "valueSource": reference}]})
    name = "backend-key/versions/1"
    version = Resource(SECRET_VERSION, name, "urn:v", {"secret": "backend-key", "secretData": "s3cret"}, {})
    type_, member = "gcp:secretmanager/secretIamMember:SecretIamMember", f"serviceAccount:{account('api')}"
    accessor = grant(type_, "secretId", "backend-key", "roles/secretmanager.secretAccessor", member)
    return (wanted, version, accessor) if granted else (wanted, version)


async def test_a_secret_reaches_an_instance_whose_account_may_read_it() -> None:
    world = new_world()
    for resource in with_secret(granted=True):
        world.put(resource)
    async with front(world) as it:
        assert (await it.json("api", "/about"))["environment"]["BACKEND_KEY"] == "s3cret"


async def test_without_the_grant_on_its_secret_no_instance_starts_and_the_grant_is_named() -> None:
    world = new_world()
    for resource in with_secret(granted=False):
        world.put(resource)
    async with front(world) as it:
        assert "missing grant: roles/secretmanager.secretAccessor on secret backend-key" in it.cloud_run.failures["api"]
        assert await it.status("api") == 503
        assert it.cloud_run.instances("api") == []


async def test_a_refused_start_is_told_line_by_line() -> None:
    world = new_world()
    world.put(service("api", env={"FAIL": "note that comes first|missing_variable: API_BASE_URL|bad_value: PORT"}))
    async with front(world) as it:
        assert it.cloud_run.services["api"].failure == "missing_variable: API_BASE_URL\nbad_value: PORT"
        assert await it.status("api") == 503


async def test_a_process_that_ends_before_it_is_ready_is_told_with_its_last_words() -> None:
    world = new_world()
    world.put(service("api", env={"EXIT": "3"}))
    async with front(world) as it:
        failure = it.cloud_run.failures["api"]
    assert failure == "the process ended with exit code 3 before it was ready: Traceback: something broke"


async def test_a_startup_probe_that_never_passes_ends_the_instance() -> None:
    world = new_world()
    probe = {"httpGet": {"path": "/health/ready"}, "periodSeconds": 1, "failureThreshold": 1}
    world.put(service("api", env={"START_SECONDS": "600"}, container={"startupProbe": probe}))
    async with front(world) as it:
        assert "startup probe (/health/ready) did not pass within 1 s" in it.cloud_run.failures["api"]
        assert it.cloud_run.instances("api") == []


async def test_a_command_other_than_the_runtime_is_not_run() -> None:
    world = new_world()
    world.put(service("api", container={"commands": ["python", "-m", "http.server"], "args": ["8080"]}))
    async with front(world) as it:
        assert "must be `python -m runtime ROLE`" in it.cloud_run.failures["api"]
        assert await it.status("api") == 404


async def test_a_service_without_requests_has_no_instance_and_the_next_request_starts_one() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world, options=Options(idle_after=0.05)) as it:
        first = await it.json("api")
        await until(lambda: it.cloud_run.instances("api") == [])
        await until(lambda: gone(first["pid"]))
        assert (await it.json("api"))["pid"] != first["pid"]


async def test_the_declared_minimum_is_started_without_a_request_and_kept() -> None:
    world = new_world()
    world.put(service("api", template={"scaling": {"minInstanceCount": 2, "maxInstanceCount": 3}}))
    async with front(world, options=Options(idle_after=0.05)) as it:
        await until(lambda: [one.serving for one in it.cloud_run.instances("api")] == [True, True])
        killed = it.cloud_run.instances("api")[0].pid
        os.kill(killed or 0, signal.SIGKILL)
        await until(lambda: killed not in [one.pid for one in it.cloud_run.instances("api")])
        await until(lambda: [one.serving for one in it.cloud_run.instances("api")] == [True, True])


async def test_what_an_instance_writes_is_handed_on_with_its_name() -> None:
    world = new_world()
    world.put(service("api", role="worker"))
    async with front(world) as it:
        pass
    (line,) = it.lines
    assert (line.service, line.instance, line.stream) == ("api", "api-00001.1", "stdout")
    assert line.text == '{"event": "starting", "role": "worker"}'


async def test_a_new_revision_takes_over_and_the_old_one_finishes_its_requests() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        old = asyncio.create_task(it.json("api", "/sleep/0.5"))
        await until(lambda: it.cloud_run.instances("api")[0].in_flight == 1)
        world.put(service("api", env={"VERSION": "2"}))
        assert await it.cloud_run.deploy() == {}
        about = await it.json("api", "/about")
        assert about["environment"]["VERSION"] == "2"
        assert (await old)["pid"] != about["pid"]
        pid = (await old)["pid"]
        await until(lambda: gone(pid))


async def test_a_service_that_has_not_changed_keeps_its_instances_over_a_deployment() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        pid = it.pid("api")
        world.put(service("other"))
        await it.cloud_run.deploy()
        assert it.pid("api") == pid
        world.remove(*_key("other"))
        await it.cloud_run.deploy()
        assert await it.status("other") == 404


def _key(name: str) -> tuple[str, str]:
    return service(name).type, name


async def test_a_stop_drains_streams_and_leaves_no_process_of_any_kind() -> None:
    """BR-107: a drain lets a stream end with its last line."""
    world = new_world()
    world.put(service("api", env={"CHILD": "grandchild-of-stop"}))
    async with front(world) as it:
        pid = it.pid("api")
        async with it.request("api", "/stream/2") as response:
            assert await response.content.readline() == b"0\n"
            stop = asyncio.create_task(it.cloud_run.stop())
            assert await response.content.read() == b"1\ndrained\n", "a drain cut what it should have finished"
            await stop
        assert await asyncio.to_thread(gone, pid)
    assert not await asyncio.to_thread(command_lines, "grandchild-of-stop")


async def test_a_process_that_a_crashed_instance_had_started_goes_with_it() -> None:
    world = new_world()
    world.put(service("api", env={"CHILD": "grandchild-of-crash"}))
    async with front(world, options=Options(idle_after=600)) as it:
        os.kill(it.pid("api"), signal.SIGKILL)
        await until(lambda: it.cloud_run.instances("api") == [])
        await until(lambda: not command_lines("grandchild-of-crash"))


async def test_a_process_that_does_not_end_when_told_is_killed_after_ten_seconds() -> None:
    """BR-107: the platform gives ten seconds."""
    world, clock = new_world(), ManualClock()
    world.put(service("api", env={"STUBBORN": "1"}))
    async with front(world, check=False, clock=clock) as it:
        pid = (await _while_time_passes(clock, 0.001, it.json("api")))["pid"]
        told_at = clock.monotonic()
        await _while_time_passes(clock, 0.1, it.cloud_run.stop())
        assert await asyncio.to_thread(gone, pid)
        assert clock.monotonic() - told_at >= 10


async def _while_time_passes(clock: ManualClock, step: float, work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.create_task(work)
    while not task.done():
        await clock.advance(step)
        await asyncio.sleep(0.001)
    return await task


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
async def test_a_failing_probe_takes_the_instance_out_of_service(probe: str) -> None:
    world = new_world()
    path = "/health/live" if probe == "livenessProbe" else "/health/ready"
    declared = {probe: {"httpGet": {"path": path}, "periodSeconds": 1, "failureThreshold": 1}}
    world.put(service("api", container=declared, template={"scaling": {"maxInstanceCount": 1}}))
    async with front(world) as it:
        pid = it.pid("api")
        await _make_bad(it, probe)
        await until(lambda: all(not one.serving for one in it.cloud_run.instances("api")))
        if probe == "livenessProbe":
            assert (await it.json("api"))["pid"] != pid, "a dead instance was not replaced"
        else:
            assert it.pid("api") == pid, "an unready instance is not ended"


async def _make_bad(it: Front, probe: str) -> None:
    name = "sick" if probe == "livenessProbe" else "unready"
    assert await it.status("api", f"/set/{name}/1", method="POST") == 200
