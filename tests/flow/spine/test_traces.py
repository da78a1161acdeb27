"""One trace through every process of a run, found by the log lines that belong to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.local import API, HELLO, WORKER, RunningStack, local_stack

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def lines_of_the_trace(running: RunningStack, service: str) -> list[dict[str, Any]]:
    written = [json.loads(line.text) for line in running.logs.lines if line.service == service]
    wanted = f"projects/{running.stack.deployment.world.project}/traces/{TRACE}"
    return [line for line in written if line.get("logging.googleapis.com/trace") == wanted]


async def test_a_callers_trace_is_followed_to_the_worker_and_back(tmp_path: Path) -> None:
    async with local_stack(tmp_path) as running:
        body = {"engine": "flow", "flow": HELLO, "input": {"name": "Ada"}, "run_id": "traced"}
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        async with running.session.post("/v1/runs", json=body, headers=headers) as response:
            assert response.status == 202, await response.text()
        record, _ = await running.ended("traced")
        assert record["state"] == "succeeded", running.logs.text()
        await running.stack.pubsub.wait_idle(timeout=30)
    worked = {line["event"] for line in lines_of_the_trace(running, WORKER)}
    assert worked, running.logs.text()
    assert all(line["logging.googleapis.com/trace_sampled"] for line in lines_of_the_trace(running, WORKER))
    assert lines_of_the_trace(running, API), running.logs.text()
