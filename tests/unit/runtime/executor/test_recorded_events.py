"""Runs with more events than reports have room for: all of them are recorded, or the record says how many are not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from runtime.contract.states import ProgressStatus
from runtime.execution.tasks import end
from runtime.ports.engine import RunContext, RunResult
from tests.support.executor_bench import RecordedApi, RunBench
from tests.support.scripted_engine import Script


def emits(count: int, size: int, *, kind: str = "tick", producers: int = 1) -> Script:
    async def script(context: RunContext) -> RunResult:
        async def produce() -> None:
            for number in range(count // producers):
                await context.emit(kind, {"n": number, "text": "x" * size})

        await asyncio.gather(*(produce() for _ in range(producers)))
        return RunResult(ProgressStatus.COMPLETED)

    return script


def payloads(api: RecordedApi, kind: str) -> list[Any]:
    """Of the events of one type that arrived."""
    return [json.loads(event.payload) for event in api.events_kept if event.event_type == kind]


@pytest.mark.parametrize(
    ("count", "size", "kind", "producers"),
    [
        (5000, 50, "tick", 1),
        (300, 9000, "tick", 1),
        (2000, 50, "progress", 1),
        (3000, 50, "tick", 3),
        (100, 50_000, "tick", 1),
    ],
)
@pytest.mark.parametrize("streamed", [True, False], ids=["read", "without its reader"])
async def test_a_healthy_api_records_every_event(
    count: int, size: int, kind: str, producers: int, streamed: bool
) -> None:
    """BR-74."""
    bench = RunBench(emits(count, size, kind=kind, producers=producers))
    reading = asyncio.create_task(_read(bench))
    if not streamed:
        bench.channel.detach(bench.reader)
    ended = await bench.ended()
    numbers = [payload["n"] for payload in payloads(bench.api, kind)]
    assert sorted(numbers) == sorted([*range(count // producers)] * producers)
    assert producers > 1 or numbers == sorted(numbers)
    assert bench.lost() == ended.events_dropped == 0
    await end(reading)


async def test_a_record_says_how_many_events_it_misses() -> None:
    """BR-74: before the last of them, and the end says it too."""
    bench = RunBench(_hung_for_a_while)
    reading = asyncio.create_task(_read(bench))
    bench.api.gate.clear()
    bench.start()
    await bench.clock.advance(8)
    assert bench.lost() > 0, "nothing is waited for any longer"
    bench.api.gate.set()
    ended = await bench.ended()
    await reading
    recorded = payloads(bench.api, "tick")
    lost = 3000 - len(recorded)
    assert lost == bench.lost() == ended.events_dropped > 0
    *_, warning, last = payloads(bench.api, "log")
    assert warning == {"level": "warning", "message": f"{lost} events were not recorded"}
    assert last == {"level": "info", "message": "Execution completed"}
    assert json.loads(ended.last_event())["events_dropped"] == json.loads(ended.answer())["events_dropped"] == lost


async def _hung_for_a_while(context: RunContext) -> RunResult:
    for number in range(3000):
        await context.emit("tick", number)
    return RunResult(ProgressStatus.COMPLETED)


async def _read(bench: RunBench) -> list[dict[str, Any]]:
    """The engine's events, as a reader that never rests gets them."""
    seen: list[dict[str, Any]] = []
    while not bench.channel.ended or bench.channel.waits:
        await bench.channel.some()
        seen += bench.stream()
    return [event for event in seen if event["event_type"] in {"tick", "progress"}]
