"""Batches: numbered without gaps, in order, each acknowledged before the next, and never lost in silence."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.adapters.clock import ManualClock
from runtime.contract.limits import CALLBACK_BATCH_BYTES, EVENT_BYTES
from runtime.execution.batcher import QUEUE_EVENTS, BatchRules, EventBatcher, EventSource
from runtime.execution.callback_messages import (
    CallbackError,
    CallbackUnavailable,
    EventsRequest,
    LeaseNotCurrent,
    ProgressAnswer,
    ProgressRequest,
    SequenceGap,
    Until,
)
from runtime.execution.callbacks import encode_events
from runtime.execution.event import EventRecord, event_id
from runtime.execution.values import ValueRefused
from runtime.observability.metrics import Metrics


class Recorder:
    """Takes events as the API does; `gate` holds every answer back while it is clear."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.batches: list[list[EventRecord]] = []
        self.times: list[float] = []
        self.sizes: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: CallbackError | None = None
        self.skips = 0

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        raise AssertionError("a batcher reports no progress")

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        assert until is not None, "a batch is retried while there is time, not a number of times"
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.batches.append(list(request.events))
        self.times.append(self.clock.monotonic())
        self.sizes.append(len(encode_events(request)))
        return request.events[-1].sequence + 1 + self.skips


class Bench:
    def __init__(self, **rules: int | timedelta) -> None:
        self.clock = ManualClock()
        self.api = Recorder(self.clock)
        self.metrics = Metrics()
        self.batcher = EventBatcher(
            self.api,
            EventSource(run_id="r1", job_id="r1.1", lease_token="t", attempt=2, next_sequence=7),
            self.clock,
            until=lambda: 1e9,
            rules=BatchRules(**rules),  # type: ignore[arg-type]  # the test's own keywords
            meters=self.metrics,
        )
        self.task = self.batcher.start()

    async def emit(self, count: int, payload: object = None) -> None:
        for _ in range(count):
            await self.batcher.emit("tick", payload)

    @property
    def counts(self) -> list[int]:
        return [len(batch) for batch in self.api.batches]

    def dropped(self) -> float:
        return self.metrics.registry.get_sample_value("callback_drops_total") or 0


async def test_a_burst_goes_out_in_full_batches_in_order_and_the_rest_with_the_end() -> None:
    """BR-74: 250 events are 100, 100 and 50."""
    bench = Bench(size=100)
    for number in range(250):
        await bench.batcher.emit("tick", number)
    await bench.batcher.close()
    assert bench.counts == [100, 100, 50]
    events = [event for batch in bench.api.batches for event in batch]
    assert [event.payload for event in events] == [str(number).encode() for number in range(250)]
    assert [event.sequence for event in events] == list(range(7, 257))
    assert [event.id for event in events] == [event_id("r1", 2, sequence) for sequence in range(7, 257)]
    assert bench.clock.monotonic() == 0


async def test_a_lone_event_after_a_quiet_time_goes_at_once_and_the_next_ones_gather() -> None:
    bench = Bench()
    await bench.emit(1)
    await bench.clock.advance(0)
    assert bench.api.times == [0]
    await bench.clock.advance(0.2)
    await bench.emit(1)
    await bench.clock.advance(0.3)
    await bench.emit(2)
    await bench.clock.advance(0.5)
    assert (bench.api.times, bench.counts) == ([0, 1], [1, 3])
    await bench.clock.advance(30)
    await bench.emit(1)
    await bench.clock.advance(0)
    assert bench.api.times[2:] == [31]
    await bench.batcher.close()


async def test_a_full_batch_does_not_wait_for_the_interval() -> None:
    bench = Bench(size=10)
    await bench.emit(1)
    await bench.clock.advance(0)
    await bench.emit(10)
    await bench.clock.advance(0)
    assert (bench.api.times, bench.counts) == ([0, 0], [1, 10])
    await bench.batcher.close()


async def test_an_interval_of_zero_sends_each_event_by_itself_as_fast_as_it_is_acknowledged() -> None:
    bench = Bench(interval=timedelta())
    for _ in range(3):
        await bench.emit(1)
        await bench.clock.advance(0)
    assert bench.counts == [1, 1, 1]
    await bench.batcher.close()


async def test_a_batch_never_outgrows_a_document() -> None:
    bench = Bench()
    await bench.emit(40, "x" * (EVENT_BYTES - 10))
    await bench.batcher.close()
    assert max(bench.api.sizes) <= CALLBACK_BATCH_BYTES
    assert sum(bench.counts) == 40


async def test_the_next_batch_waits_for_the_acknowledgement_of_the_one_before() -> None:
    bench = Bench(size=10)
    bench.api.gate.clear()
    await bench.emit(30)
    await bench.clock.advance(100)
    assert bench.counts == []
    bench.api.gate.set()
    await bench.clock.advance(0)
    assert bench.counts == [10, 10, 10]
    await bench.batcher.close()


async def test_an_engine_that_is_faster_than_the_api_waits() -> None:
    """BR-72: what waits is bounded, by number and by bytes."""
    bench = Bench(size=10)
    bench.api.gate.clear()
    producer = asyncio.create_task(bench.emit(QUEUE_EVENTS * 2))
    await bench.clock.advance(1)
    assert not producer.done()
    assert bench.batcher.room() == 0
    bench.api.gate.set()
    await bench.clock.advance(10)
    assert producer.done()
    big = asyncio.create_task(bench.emit(100, "x" * 60_000))
    bench.api.gate.clear()
    await bench.clock.advance(1)
    assert not big.done()
    assert bench.batcher._queue.size <= 1024 * 1024 + EVENT_BYTES
    bench.api.gate.set()
    await bench.clock.advance(10)
    await bench.batcher.close()
    assert sum(bench.counts) == QUEUE_EVENTS * 2 + 100


async def test_many_producers_lose_and_reorder_nothing_of_their_own() -> None:
    bench = Bench(size=7)

    async def produce(name: int) -> None:
        for number in range(400):
            await bench.batcher.emit("tick", [name, number])
            if number % 50 == name:
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(produce(name)) for name in range(5)]
    await bench.clock.advance(1)
    await asyncio.gather(*tasks)
    await bench.batcher.close()
    events = [event for batch in bench.api.batches for event in batch]
    assert [event.sequence for event in events] == list(range(7, 2007))
    for name in range(5):
        mine = [event.payload for event in events if event.payload.startswith(b"[%d," % name)]
        assert mine == [b"[%d,%d]" % (name, number) for number in range(400)]


@pytest.mark.parametrize("fault", [CallbackUnavailable("down"), LeaseNotCurrent("other"), SequenceGap("gap")])
async def test_a_failure_ends_the_batcher_frees_its_producers_and_is_told_to_whoever_closes(
    fault: CallbackError,
) -> None:
    bench = Bench(size=10)
    bench.api.gate.clear()
    producer = asyncio.create_task(bench.emit(QUEUE_EVENTS * 2))
    await bench.clock.advance(1)
    bench.api.fault = fault
    bench.api.gate.set()
    await bench.clock.advance(1)
    assert producer.done(), "nobody waits for room that never comes"
    assert bench.task.exception() is fault
    with pytest.raises(type(fault)):
        await bench.batcher.close()
    assert bench.dropped() == QUEUE_EVENTS * 2, "what was not delivered is counted"


async def test_an_answer_that_expects_another_sequence_is_a_gap() -> None:
    bench = Bench()
    bench.api.skips = 1
    await bench.emit(1)
    with pytest.raises(SequenceGap):
        await bench.batcher.close()


async def test_events_after_the_end_are_dropped_and_counted() -> None:
    bench = Bench()
    await bench.emit(1)
    await bench.batcher.close()
    await bench.emit(3)
    assert (bench.counts, bench.dropped()) == ([1], 3)


async def test_closing_without_events_sends_nothing() -> None:
    bench = Bench()
    await bench.batcher.close()
    assert bench.api.batches == []


@pytest.mark.parametrize(
    ("event_type", "payload", "code"),
    [
        ("Tick", None, "value_not_json"),
        ("", None, "value_not_json"),
        ("tick\ndata: x", None, "value_not_json"),
        ("tick", float("nan"), "value_not_json"),
        ("tick", b"bytes", "value_not_json"),
        ("tick", "\ud800", "value_not_json"),
        ("tick", "x" * EVENT_BYTES, "value_too_large"),
    ],
)
async def test_what_cannot_be_sent_is_refused_to_whoever_emits_it(event_type: str, payload: object, code: str) -> None:
    """BR-67: a serializer error is an error, not silence."""
    bench = Bench()
    with pytest.raises(ValueRefused) as caught:
        await bench.batcher.emit(event_type, payload)
    assert caught.value.code == code
    await bench.batcher.close()


async def test_circles_and_depth_are_refused() -> None:
    bench = Bench()
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(60):
        deep = [deep]
    for payload in (circle, deep):
        with pytest.raises(ValueRefused):
            await bench.batcher.emit("tick", payload)
    await bench.batcher.close()


@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0.0, 0.3, 1.0, 5.0])), max_size=8),
    st.integers(1, 20),
    st.integers(0, 3000),
)
@settings(max_examples=40, deadline=None)
async def test_every_event_is_delivered_once_in_order_for_every_rhythm(
    bursts: list[tuple[int, float]], size: int, interval_ms: int
) -> None:
    bench = Bench(size=size, interval=timedelta(milliseconds=interval_ms))
    total = 0
    for count, pause in bursts:
        for _ in range(count):
            await bench.batcher.emit("tick", total)
            total += 1
        await bench.clock.advance(pause)
    await bench.batcher.close()
    events = [event for batch in bench.api.batches for event in batch]
    assert [int(event.payload) for event in events] == list(range(total))
    assert [event.sequence for event in events] == list(range(7, 7 + total))
    assert all(1 <= count <= size for count in bench.counts)
