"""Runs whose callers wait, through the API and the executor of the real local stack, and what stops them.

Does not cover latency, nor names as Google resolves them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from sandbox.network import LoopbackConnector
from sandbox.world import SERVICE
from tests.support.local import API, HELLO, QUICK, WORKER, RunningStack, local_stack

EXECUTOR = "holdfast-executor"
INVOKER = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"


async def waited(running: RunningStack) -> dict[str, Any]:
    """The record of a run whose caller waited for it."""
    body = {"engine": "flow", "flow": HELLO, "input": {"name": "Ada"}, "mode": "sync"}
    async with running.session.post("/v1/runs", json=body) as response:
        answer: dict[str, Any] = await response.json()
        assert response.status == 200, answer
        return answer


async def called(running: RunningStack, account: str) -> tuple[int, str]:
    """Status and text of a call from inside, with a valid token of an account and no job."""
    url = str(running.stack.deployment.outputs["executor_address"])
    token = running.stack.identity.id_token(f"{account}@holdfast-local.iam.gserviceaccount.com", url)
    async with aiohttp.ClientSession(connector=LoopbackConnector(running.stack.hosts), trust_env=False) as session:
        headers = {"Authorization": f"Bearer {token}"}
        async with session.post(f"{url}/execute", json={}, headers=headers) as response:
            return response.status, await response.text()


async def test_a_caller_who_waits_is_answered_where_grant_and_network_are_declared(tmp_path: Path) -> None:
    """BR-131: 403 without the grant, 404 without the network."""
    async with local_stack(tmp_path, {**QUICK, "holdfast:executor": {}}) as running:
        record = await waited(running)
        assert (record["state"], record["result"]) == ("succeeded", "Hello Ada"), running.logs.text()

        status, text = await called(running, API)
        assert (status, '"code"' in text) == (401, True), "it reaches the role, which misses a job's token"
        status, text = await called(running, WORKER)
        assert (status, "may not invoke holdfast-executor" in text) == (403, True)

        world = running.stack.deployment.world
        (grant,) = [one for one in world.of_type(INVOKER) if one.inputs["name"] == EXECUTOR]
        world.remove(grant.type, grant.name)
        assert "403" in str(await waited(running))
        world.put(grant)

        api = world.find(SERVICE, API)
        assert api is not None
        template = {name: value for name, value in api.inputs["template"].items() if name != "vpcAccess"}
        world.put(replace(api, inputs={**api.inputs, "template": template}))
        assert await running.stack.cloud_run.deploy() == {}
        assert "404" in str(await waited(running))
