"""A running job hears of its cancellation long before its lease is renewed, wherever it runs in the local stack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from runtime.contract.states import RunMode
from tests.support.local import QUICK, RunningStack, local_stack

SECONDS: Final = 40
"""Of the job; an executor's lease is first renewed after 50."""
LONG: Final[dict[str, Any]] = {
    "start": "tell",
    "nodes": {
        "tell": {"type": "emit", "event": "greeting", "payload": "$.input", "next": "wait"},
        "wait": {"type": "sleep", "seconds": SECONDS},
    },
    "output": "$.input",
}


async def _cancelled(running: RunningStack, mode: RunMode) -> tuple[dict[str, Any], bytes]:
    """The record of a run that is cancelled while it works, and what its caller was told."""
    run_id = f"long-{mode}"
    body = {"run_id": run_id, "engine": "flow", "flow": LONG, "input": 1, "mode": mode.value}

    async def answer() -> bytes:
        async with running.session.post("/v1/runs", json=body) as response:
            return await response.read()

    caller = asyncio.create_task(answer())
    while (await running.run(run_id)).get("next_sequence", 0) < 2:  # noqa: ASYNC110 - another process works it
        await asyncio.sleep(0.05)
    async with running.session.post(f"/v1/runs/{run_id}/cancel") as response:
        assert response.status == 202
    record, _ = await running.ended(run_id, 25)
    return record, await caller


async def test_a_running_job_is_cancelled_in_every_mode(tmp_path: Path) -> None:
    async with local_stack(tmp_path, {**QUICK, "holdfast:executor": {}}) as running:
        ends = await asyncio.gather(*(_cancelled(running, mode) for mode in RunMode))
    for record, _ in ends:
        assert (record["state"], record["status_code"], record["attempt"]) == ("cancelled", 499, 1)
    told = {record["mode"]: said for record, said in ends}
    assert b'"state": "cancelled"' in told["sync"]
    assert b'"status":"cancelled"' in told["stream"].splitlines()[-1]
