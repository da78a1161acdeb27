"""No secret that a job was given leaves it in what it says of itself: not in its record, its events or its stream."""

from __future__ import annotations

import pytest

from runtime.contract.errors import HoldfastError
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_engine import Script
from tests.support.served_executor import ServedExecutor

SIGNED = "https://storage.googleapis.com/b/o?X-Goog-Signature=" + "5ec4e7" * 40


async def _says(context: RunContext) -> RunResult:
    await context.emit("log", {"level": "info", "message": f"got {SIGNED}"})
    await context.emit("node_end", {"node": "a", "error": f"403 for {SIGNED}"})
    return RunResult(ProgressStatus.FAILED, error=f"403 for\n{SIGNED}", failure_class=FailureClass.FRAMEWORK_ERROR)


async def _raises(context: RunContext) -> RunResult:
    await context.emit("log", {"level": "info", "message": f"got {SIGNED}"})
    raise HoldfastError(f"403 for {SIGNED}")


async def _breaks(_context: RunContext) -> RunResult:
    raise ValueError(SIGNED)


@pytest.mark.parametrize("script", [_says, _raises, _breaks], ids=lambda script: script.__name__)
@pytest.mark.parametrize("path", ["/execute", "/execute/stream", "/execute/sse"])
async def test_a_signed_address_reaches_nobody(served: ServedExecutor, path: str, script: Script) -> None:
    served.engine("leaks", script)
    async with served.open(path, served.job(engine="leaks")) as response:
        answer = await response.text()
    api = served.apis["r1"]
    assert api.end.error, "the run failed, and its record says why"
    for where in (answer, api.end.error, *(event.payload.decode() for event in api.events_kept)):
        assert "5ec4e7" not in where


async def test_what_a_job_gives_its_caller_stays_as_it_is(served: ServedExecutor) -> None:
    async def gives(context: RunContext) -> RunResult:
        await context.emit("upload", {"url": SIGNED})
        return RunResult(ProgressStatus.COMPLETED, output={"url": SIGNED})

    served.engine("gives", gives)
    events = await served.events("/execute/stream", served.job(engine="gives"))
    assert [event["payload"]["url"] for event in events if event["event_type"] == "upload"] == [SIGNED]
    assert events[-1]["payload"]["result"] == {"url": SIGNED}
