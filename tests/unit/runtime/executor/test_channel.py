"""The way to a reader: bounded, in order, coalesced where only the newest matters, and resumable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.clock import ManualClock
from runtime.execution.event import Emitted, Stretches
from runtime.execution.tasks import end
from runtime.executor.channel import Channel, ChannelRules, Direct, PositionGone, SlowConsumer
from runtime.executor.emitter import Emitter
from runtime.executor.stream import WRITE_BYTES
from runtime.executor.stream_event import OVERHEAD, ndjson, sse

NOW = "2026-01-01T00:00:00.000Z"


class Reported:
    """Takes reports without end.

    Attributes:
        events: that were reported.
    """

    def __init__(self) -> None:
        self.events: list[Emitted] = []

    def room(self) -> int:
        return 1000

    async def until_room(self) -> None:
        return

    def extend(self, events: Sequence[Emitted], size: int, *, own: bool = False) -> None:
        self.events += events

    def note(self, progress: int | None, step: str | None) -> None:
        """Of no interest."""

    def hasten(self) -> None:
        """Nothing waits."""


class Bench:
    def __init__(self, **rules: int | timedelta) -> None:
        self.clock = ManualClock()
        self.channel = Channel(self.clock, ChannelRules(**rules))  # type: ignore[arg-type]  # the test's own keywords
        self.reader = self.channel.attach()
        self.reports = Reported()
        self.stalls: list[SlowConsumer] = []
        self.emitter = Emitter(
            self.clock,
            self.channel,
            self.reports,
            stalled=self.stalls.append,
        )

    async def put(self, *numbers: int, kind: str = "tick") -> None:
        for number in numbers:
            await self.emitter.emit(kind, number)

    def taken(self, size: int = 10**9, overhead: int = 0) -> list[int]:
        self.emitter.flush()
        return payloads(self.channel.take(size, overhead))

    def take(self, size: int = 10**9) -> list[Emitted]:
        self.emitter.flush()
        return self.channel.take(size)

    def id_of(self, event: Emitted) -> str:
        return f"{self.channel.name}-{event[0]}"


def payloads(events: Sequence[Emitted]) -> list[int]:
    return [json.loads(payload) for _, _, payload, _ in events]


async def test_events_leave_in_the_order_they_came() -> None:
    bench = Bench()
    await bench.put(*range(100))
    assert bench.taken() == list(range(100))


async def test_an_event_has_the_fields_that_readers_know() -> None:
    bench = Bench()
    await bench.emitter.emit("tick", {"text": "a\nb"})
    (event,) = bench.take()
    assert json.loads(ndjson(bench.channel.name, [event])) == {
        "event_id": bench.id_of(event),
        "event_type": "tick",
        "payload": {"text": "a\nb"},
        "timestamp": NOW,
    }


async def test_a_write_holds_at_most_its_size_and_one_event_at_least() -> None:
    bench = Bench()
    await bench.put(*range(10))
    assert bench.taken(1) == [0]
    assert bench.taken(3) == [1, 2, 3]
    assert bench.taken(3 * (1 + 50) + 50, overhead=50) == [4, 5, 6]
    assert bench.taken(0) == [7]


async def test_a_progress_that_still_waits_is_replaced_by_the_next() -> None:
    bench = Bench()
    await bench.put(1)
    await bench.put(10, 20, kind="progress")
    await bench.put(2)
    await bench.put(30, kind="progress")
    assert bench.taken() == [1, 2, 30]
    await bench.put(40, kind="progress")
    assert bench.taken() == [40]


async def test_a_flood_of_progress_never_fills_the_queue() -> None:
    bench = Bench(events=3)
    await bench.put(1)
    await bench.put(*range(1000), kind="progress")
    await bench.put(2)
    assert bench.taken() == [1, 999, 2]


async def test_an_engine_waits_for_room_and_goes_on_when_there_is_some() -> None:
    bench = Bench(events=2)
    producer = asyncio.create_task(bench.put(1, 2, 3, 4))
    await bench.clock.advance(10)
    assert not producer.done()
    assert bench.taken() == [1, 2]
    await bench.clock.advance(0)
    await producer
    assert bench.taken() == [3, 4]


async def test_bytes_are_bounded_as_well_as_events() -> None:
    bench = Bench(bytes=5)
    producer = asyncio.create_task(bench.put(*range(10)))
    await bench.clock.advance(1)
    assert not producer.done()
    assert bench.taken() == [0, 1, 2, 3, 4]
    await bench.clock.advance(1)
    await producer


async def test_a_reader_that_takes_nothing_for_the_stall_limit_is_too_slow() -> None:
    """BR-72."""
    bench = Bench(events=2, stall=timedelta(seconds=30))
    await bench.clock.advance(1000)
    producer = asyncio.create_task(bench.put(1, 2, 3))
    await bench.clock.advance(29.9)
    assert not producer.done(), "only the time that somebody waits counts, not the quiet time before"
    await bench.clock.advance(0.1)
    await producer
    assert [str(stall) for stall in bench.stalls] == ["the reader took nothing for 30 s while 2 events waited for it"]


async def test_a_reader_that_takes_a_little_is_slow_but_never_too_slow() -> None:
    bench = Bench(events=2, stall=timedelta(seconds=30))
    producers = [asyncio.create_task(bench.put(number)) for number in range(8)]
    taken = []
    for _ in range(8):
        await bench.clock.advance(29)
        taken += bench.taken(1)
    await asyncio.gather(*producers)
    assert taken == list(range(8)), "producers that wait keep their order"


async def test_the_executors_own_words_are_never_held_up_and_the_last_one_is_the_last() -> None:
    bench = Bench(events=1)
    await bench.put(1)
    waiting = asyncio.create_task(bench.put(2))
    await bench.clock.advance(1)
    bench.emitter.say("error", b"7")
    bench.emitter.say("completed", b"8", last=True)
    await waiting
    bench.emitter.say("completed", b"9", last=True)
    await bench.put(3)
    assert bench.taken() == [1, 7, 8]
    assert bench.channel.ended


async def test_without_a_reader_nothing_waits_and_the_newest_are_kept() -> None:
    bench = Bench(events=2, kept_events=5)
    waiting = asyncio.create_task(bench.put(*range(10)))
    await bench.clock.advance(1)
    bench.channel.detach(bench.reader)
    await waiting
    with pytest.raises(PositionGone):
        bench.channel.attach()


async def test_a_reader_that_returns_gets_what_it_has_not_seen() -> None:
    bench = Bench()
    await bench.put(1, 2, 3)
    seen = bench.take()
    bench.channel.detach(bench.reader)
    await bench.put(4)
    await bench.put(50, 60, kind="progress")
    bench.emitter.say("completed", b"7", last=True)
    for number, event in enumerate(seen):
        bench.channel.attach(bench.id_of(event))
        assert bench.taken() == [1, 2, 3, 4, 50, 60, 7][number + 1 :], "and as often as it likes"


async def test_resuming_while_events_wait_skips_those_that_were_seen() -> None:
    bench = Bench()
    await bench.put(1, 2)
    await bench.put(3, kind="progress")
    (one,) = bench.take(1)
    bench.channel.attach(bench.id_of(one))
    await bench.put(4, kind="progress")
    await bench.put(5)
    assert bench.taken() == [2, 3, 4, 5]


async def test_a_new_reader_takes_the_place_of_the_old_one_and_wakes_it() -> None:
    bench = Bench()
    waiting = asyncio.create_task(bench.channel.some())
    await bench.clock.advance(0)
    second = bench.channel.attach()
    await waiting
    assert (bench.channel.is_reader(bench.reader), bench.channel.is_reader(second)) == (False, True)
    bench.channel.detach(bench.reader)
    await bench.put(1)
    assert bench.taken() == [1], "one that was replaced takes nobody away"


@pytest.mark.parametrize("identity", ["", "x", "x-1", "{name}-99", "{name}-", "{name}-1x", "{name}-²", "\0-1"])
async def test_an_id_of_another_stream_is_refused(identity: str) -> None:
    bench = Bench()
    await bench.put(1)
    with pytest.raises(PositionGone):
        bench.channel.attach(identity.format(name=bench.channel.name))


async def test_what_is_kept_is_bounded_in_bytes_but_the_newest_stays() -> None:
    bench = Bench(kept_bytes=1)
    await bench.put(1, 2)
    first, _ = bench.take()
    bench.channel.attach(bench.id_of(first))
    assert bench.taken() == [2]
    await bench.put(3)
    bench.taken()
    with pytest.raises(PositionGone):
        bench.channel.attach(bench.id_of(first))


@given(steps=st.lists(st.sampled_from(["put", "progress", "take", "turn", "wait", "leave", "return"]), max_size=60))
@pytest.mark.parametrize("frames", [ndjson, sse])
def test_no_reader_ever_sees_an_event_twice_or_out_of_order_or_misses_one(
    frames: Callable[[str, Sequence[Emitted]], bytes], steps: list[str]
) -> None:
    async def story() -> None:
        bench = Bench(events=10**6, kept_events=10**6, kept_bytes=10**9)
        channel, reader, seen = bench.channel, bench.reader, list[Emitted]()

        def write(events: Stretches) -> bytes:
            seen.extend(events)
            return frames(channel.name, events)

        for step in [*steps, "return", "take"]:
            if step in {"put", "progress"}:
                await bench.put(1, kind="tick" if step == "put" else "progress")
            elif step == "take":
                seen += channel.take(200)
            elif step == "turn":
                await asyncio.sleep(0)
            elif step == "wait" and channel.is_reader(reader) and "leave" not in steps:
                waiting = asyncio.create_task(channel.some(Direct(write, 1)))
                await asyncio.sleep(0)
                await bench.put(1)
                await end(waiting)
            elif step == "leave":
                channel.detach(reader)
            elif step == "return" and seen:
                reader = channel.attach(bench.id_of(seen[-1]))
        seen += bench.take()
        positions = [event[0] for event in seen]
        assert positions == sorted(set(positions))
        if seen or "leave" not in steps:
            ticks = [event for event in bench.reports.events if event[1] == "tick"]
            assert [event for event in seen if event[1] == "tick"] == ticks

    asyncio.run(story())


async def test_a_lone_event_leaves_in_the_turn_that_it_came_in_and_those_after_it_gather() -> None:
    bench = Bench()
    writes: list[list[int]] = []

    def write(events: Stretches) -> bytes:
        writes.append(payloads(events))
        return ndjson(bench.channel.name, events)

    waiting = asyncio.create_task(bench.channel.some(Direct(write, 1)))
    await asyncio.sleep(0)
    await bench.put(1)
    assert writes == [[1]]
    await bench.put(2, 3)
    await bench.clock.advance(0)
    assert writes == [[1], [2, 3]]
    await bench.put(4)
    assert writes == [[1], [2, 3], [4]]
    await bench.clock.advance(0)
    await bench.put(40, kind="progress")
    assert writes[3:] == [[40]]
    assert payloads(bench.reports.events) == [1, 2, 3, 4, 40]
    await end(waiting)


async def test_an_engine_may_go_on_with_what_it_emitted() -> None:
    bench = Bench()
    payload: dict[str, object] = {"n": 1, "deep": [1]}
    flat: dict[str, object] = {"n": 1}
    for number in range(3):
        payload["n"] = flat["n"] = number
        await bench.emitter.emit("tick", payload)
        await bench.emitter.emit("tick", flat)
    payload.clear()
    flat.clear()
    found = [json.loads(encoded)["n"] for _, _, encoded, _ in bench.take()]
    assert found == [0, 0, 1, 1, 2, 2]


async def test_events_fill_writes_of_one_size() -> None:
    bench = Bench()
    writes: list[Stretches] = []

    def write(events: Stretches) -> bytes:
        writes.append(events)
        return ndjson(bench.channel.name, events)

    waiting = asyncio.create_task(bench.channel.some(Direct(write, OVERHEAD)))
    await asyncio.sleep(0)
    for _ in range(1000):
        await bench.emitter.emit("tick", {"text": "x" * 100, "n": 1})
    await bench.clock.advance(0)
    sizes = [len(ndjson(bench.channel.name, events)) for events in writes]
    assert sum(map(len, writes)) == 1000
    assert max(sizes) <= WRITE_BYTES
    assert len(sizes) <= sum(sizes) / 12_000
    await end(waiting)


async def test_a_write_that_is_not_taken_keeps_its_events_for_the_reader() -> None:
    bench = Bench()
    waiting = asyncio.create_task(bench.channel.some(Direct(lambda _events: None, 1)))
    await asyncio.sleep(0)
    await bench.put(1)
    await waiting
    await bench.put(10, 20, kind="progress")
    assert bench.taken() == [1, 20]
