"""What instances are told, their CPU between requests, and the end of the sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from sandbox.cloud_run.factory import Surroundings
from sandbox.cloud_run.faults import Action, Fault, Point
from sandbox.cloud_run.front import Options
from sandbox.network import Address, Hosts
from sandbox.world import DATABASE, INDEX, Resource
from tests.support.cloud_run import account, front, grant, host, new_world, service
from tests.support.processes import command_lines, gone
from tests.support.waiting import until


async def config(**template: Any) -> dict[str, Any]:
    world = new_world()
    world.put(service("api", role="worker", template=template))
    world.put(Resource(DATABASE, "(default)", "urn:d", {"name": "(default)"}, {}))
    fields = [{"fieldPath": "state", "order": "ASCENDING"}, {"fieldPath": "created_at", "order": "DESCENDING"}]
    world.put(Resource(INDEX, "(default)/x_runs/1", "urn:i", {"collection": "x_runs", "fields": fields}, {}))
    member = f"serviceAccount:{account('api')}"
    world.put(grant("gcp:projects/iAMMember:IAMMember", "project", "demo", "roles/datastore.user", member))
    around = Surroundings(hosts=Hosts({"pubsub.googleapis.com": Address(port=4)}), pubsub_port=5, code_paths=("/c",))
    async with front(world, surroundings=around, check=False) as it:
        told: dict[str, Any] = (await it.json("api", "/about"))["config"]
        run_app = told["hosts"].pop("*.run.app")["port"]
        told["entrance"] = {it.cloud_run.internal.port: "internal", it.cloud_run.external.port: "external"}[run_app]
    return told


async def test_an_instance_is_told_its_account_its_neighbours_and_its_rights() -> None:
    told = await config()
    assert (told["role"], told["service"], told["account"]) == ("worker", "api", account("api"))
    assert set(told["hosts"]) == {"metadata.google.internal", "pubsub.googleapis.com"}
    assert (told["pubsub_port"], told["code_paths"]) == (5, ["/c"])
    assert told["store"] == {"databases": ["(default)"], "missing_grant": None}
    assert told["indexes"] == [["x_runs", [["state", "ASCENDING"], ["created_at", "DESCENDING"]]]]


@pytest.mark.parametrize(
    ("vpc", "entrance"),
    [
        (None, "external"),
        ({"egress": "PRIVATE_RANGES_ONLY", "connector": "c"}, "external"),
        ({"egress": "ALL_TRAFFIC", "connector": "c"}, "internal"),
    ],
)
async def test_calls_between_services_are_internal_only_through_a_vpc_that_covers_them(
    vpc: dict[str, str] | None, entrance: str
) -> None:
    assert (await config(vpcAccess=vpc))["entrance"] == entrance


async def test_ordered_faults_go_to_the_next_instance_and_to_no_other() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world, check=False) as it:
        fault = Fault(point=Point.HTTP_BEFORE, action=Action.KILL, match="/progress", nth=2)
        it.cloud_run.order_faults("api", [fault])
        assert (await it.json("api", "/about"))["config"]["faults"] == [fault.to_json()]
        it.cloud_run.kill("api")
        await until(lambda: it.cloud_run.instances("api") == [])
        assert (await it.json("api", "/about"))["config"]["faults"] == []


@pytest.mark.usefixtures("either_launcher")
async def test_the_cpu_is_taken_away_between_requests_and_comes_back_with_the_next() -> None:
    """BR-111: what happens between requests happens later, or never."""
    world = new_world()
    world.put(service("api", container={"resources": {"cpuIdle": True}}))
    async with front(world, options=Options(linger=0.05)) as it:
        pid = it.pid("api")
        await until(lambda: _state(pid) == "T")
        assert (await it.json("api"))["pid"] == pid
        await until(lambda: _state(pid) == "T")
    assert await asyncio.to_thread(gone, pid), "a stopped process must still end with its front"


async def test_the_cpu_of_a_service_that_keeps_it_is_never_taken() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world, options=Options(linger=0.01)) as it:
        await it.json("api")
        assert not it.cloud_run.instances("api")[0].cpu_stopped


@pytest.mark.parametrize("launcher", ["None", "SpawnLauncher(TEST_ROLE)"], ids=["forked", "spawned"])
async def test_instances_die_with_a_sandbox_that_is_killed(launcher: str) -> None:
    script = (
        "import asyncio\n"
        "from tests.support.cloud_run import TEST_ROLE, SpawnLauncher, front, new_world, service\n"
        "async def main():\n"
        "    world = new_world()\n"
        "    world.put(service('api', env={'MARK': 'orphan'}))\n"
        f"    async with front(world, launcher={launcher}) as it:\n"
        "        print(it.pid('api'), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    sandbox = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=subprocess.PIPE)
    assert sandbox.stdout is not None
    line = b""
    while not line.strip().isdigit():
        line = await sandbox.stdout.readline()
    sandbox.kill()
    await sandbox.wait()
    await until(lambda: gone(int(line)))


async def test_a_start_on_a_taken_port_says_so_and_leaves_nothing() -> None:
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        async with front(new_world(), options=Options(external_port=port)):
            pass
    listener.close()
    await listener.wait_closed()


async def test_every_declared_service_has_its_deterministic_host() -> None:
    world = new_world()
    for name in ("api", "executor"):
        world.put(service(name))
    async with front(world, check=False) as it:
        for name in ("api", "executor"):
            assert ["Host", host(name)] in (await it.json(name))["headers"]
    assert not await asyncio.to_thread(command_lines, "tests.support.cloud_role"), "a process is left"


def _state(pid: int) -> str:
    """First letter of a process's state; T is stopped."""
    return _column("stat", pid)[:1]


def _parent(pid: int) -> int:
    return int(_column("ppid", pid))


def _column(name: str, pid: int) -> str:
    return subprocess.run(["ps", "-o", f"{name}=", "-p", str(pid)], capture_output=True, text=True).stdout


async def test_a_service_that_declares_what_an_interpreter_reads_at_its_start_gets_one_of_its_own() -> None:
    world = new_world()
    world.put(service("api", env={"PYTHONUTF8": "1"}))
    async with front(world) as it:
        started = await asyncio.to_thread(command_lines, "tests.support.cloud_role api")
        assert len(started) == 1
        assert (await it.json("api", "/about"))["environment"]["PYTHONUTF8"] == "1"


async def test_a_lost_fork_server_costs_its_instances_and_no_more() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        pid = it.pid("api")
        os.kill(await asyncio.to_thread(_parent, pid), signal.SIGKILL)
        await until(lambda: it.cloud_run.instances("api") == [])
        assert (await it.json("api"))["pid"] != pid
