"""The way to a reader: bounded, in order, coalesced where only the newest matters, and resumable."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.clock import ManualClock
from runtime.executor.channel import Channel, ChannelRules, PositionGone, SlowConsumer
from runtime.executor.stream_event import StreamEvent

NOW = "2026-01-01T00:00:00.000Z"


class Bench:
    def __init__(self, **rules: int | timedelta) -> None:
        self.clock = ManualClock()
        self.channel = Channel(self.clock, ChannelRules(**rules))  # type: ignore[arg-type]  # the test's own keywords
        self.reader = self.channel.attach()

    async def put(self, *numbers: int, kind: str = "tick") -> None:
        for number in numbers:
            await self.channel.put(kind, str(number).encode(), NOW)

    def taken(self) -> list[int]:
        return payloads(self.channel.take(10**9))


def payloads(events: list[StreamEvent]) -> list[int]:
    return [json.loads(event.data)["payload"] for event in events]


async def test_events_leave_in_the_order_they_came() -> None:
    bench = Bench()
    await bench.put(*range(100))
    assert bench.taken() == list(range(100))


async def test_an_event_has_the_fields_that_readers_know() -> None:
    bench = Bench()
    await bench.channel.put("tick", b'{"text":"a\\nb"}', NOW)
    (event,) = bench.channel.take(1)
    assert json.loads(event.data) == {
        "event_id": event.id,
        "event_type": "tick",
        "payload": {"text": "a\nb"},
        "timestamp": NOW,
    }


async def test_a_write_holds_at_most_its_size_and_one_event_at_least() -> None:
    bench = Bench()
    await bench.put(*range(10))
    size = len(bench.channel.take(1)[0].data)
    assert payloads(bench.channel.take(3 * size + 1)) == [1, 2, 3]
    assert payloads(bench.channel.take(3 * (size + 50), overhead=50)) == [4, 5, 6]
    assert payloads(bench.channel.take(0)) == [7]


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
    bench = Bench(bytes=500)
    producer = asyncio.create_task(bench.put(*range(10)))
    await bench.clock.advance(1)
    assert not producer.done()
    assert len(bench.channel.take(10**9)) < 10
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
    with pytest.raises(SlowConsumer, match="30 s while 2 events"):
        await producer


async def test_a_reader_that_takes_a_little_is_slow_but_never_too_slow() -> None:
    bench = Bench(events=2, stall=timedelta(seconds=30))
    producers = [asyncio.create_task(bench.put(number)) for number in range(8)]
    taken = []
    for _ in range(8):
        await bench.clock.advance(29)
        taken += payloads(bench.channel.take(1))
    await asyncio.gather(*producers)
    assert taken == list(range(8)), "producers that wait keep their order"


async def test_the_executors_own_words_are_never_held_up_and_the_last_one_is_the_last() -> None:
    bench = Bench(events=1)
    await bench.put(1)
    waiting = asyncio.create_task(bench.put(2))
    await bench.clock.advance(1)
    bench.channel.say("error", b"7", NOW)
    bench.channel.say("completed", b"8", NOW, last=True)
    await waiting
    bench.channel.say("completed", b"9", NOW, last=True)
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
    seen = bench.channel.take(10**9)
    bench.channel.detach(bench.reader)
    await bench.put(4)
    await bench.put(50, 60, kind="progress")
    bench.channel.say("completed", b"7", NOW, last=True)
    for number, event in enumerate(seen):
        bench.channel.attach(event.id)
        assert bench.taken() == [1, 2, 3, 4, 50, 60, 7][number + 1 :], "and as often as it likes"


async def test_resuming_while_events_wait_skips_those_that_were_seen() -> None:
    bench = Bench()
    await bench.put(1, 2)
    await bench.put(3, kind="progress")
    one = bench.channel.take(1)[0]
    bench.channel.attach(one.id)
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
    name = bench.channel.take(1)[0].id.partition("-")[0]
    with pytest.raises(PositionGone):
        bench.channel.attach(identity.format(name=name))


async def test_what_is_kept_is_bounded_in_bytes_but_the_newest_stays() -> None:
    bench = Bench(kept_bytes=1)
    await bench.put(1, 2)
    first, _ = bench.channel.take(10**9)
    bench.channel.attach(first.id)
    assert bench.taken() == [2]
    await bench.put(3)
    bench.taken()
    with pytest.raises(PositionGone):
        bench.channel.attach(first.id)


@given(st.lists(st.sampled_from(["put", "progress", "take", "leave", "return"]), max_size=60))
def test_no_reader_ever_sees_an_event_twice_or_out_of_order_or_misses_one(steps: list[str]) -> None:
    async def story() -> None:
        channel = Channel(ManualClock(), ChannelRules(events=10**6, kept_events=10**6, kept_bytes=10**9))
        reader, seen, last, count = channel.attach(), [], None, 0
        for step in [*steps, "return", "take"]:
            if step in {"put", "progress"}:
                count += 1
                await channel.put("tick" if step == "put" else "progress", b"%d" % count, NOW)
            elif step == "take":
                batch = channel.take(200)
                seen += [(event.position, event.event_type) for event in batch]
                last = batch[-1].id if batch else last
            elif step == "leave":
                channel.detach(reader)
            elif last is not None:
                reader = channel.attach(last)
        seen += [(event.position, event.event_type) for event in channel.take(10**9)]
        positions = [position for position, _ in seen]
        assert positions == sorted(set(positions))
        ticks = sum(step == "put" for step in steps)
        if last is not None or "leave" not in steps:
            assert sum(kind == "tick" for _, kind in seen) == ticks

    asyncio.run(story())
