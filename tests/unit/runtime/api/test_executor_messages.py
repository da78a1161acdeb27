"""The executor's stream taken apart: the same messages however the bytes are cut, and nothing but its messages."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.executor_errors import ExecutorBroken
from runtime.api.executor_messages import MESSAGE_BYTES, Message, MessageReader, as_message
from runtime.api.json_value import encode
from runtime.execution.event import EVENT_TYPE, Emitted
from runtime.executor.stream_event import ndjson, sse

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=8
)
written = st.builds(
    lambda position, event_type, payload: (position, event_type, encode(payload), "t"),
    st.integers(1, 10**6),
    st.from_regex(EVENT_TYPE, fullmatch=True),
    json_values,
)
streams = st.lists(written | st.just(b": keep-alive\n\n"), max_size=8)


def raw(item: Emitted | bytes) -> bytes:
    return item if isinstance(item, bytes) else sse("ab", [item])


@given(streams, st.lists(st.integers(0, 2000), max_size=6))
def test_what_an_executor_writes_is_read_whole_however_it_arrives(
    items: list[Emitted | bytes], cuts: list[int]
) -> None:
    data = b"".join(map(raw, items))
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = MessageReader()
    found = [message for start, end in pairwise(places) if start < end for message in reader.feed(data[start:end])]
    assert b"".join(message.raw for message in found) == data, "nothing is lost, added or kept back"
    assert [(message.event_type, message.data) for message in found] == [
        ("", b"") if isinstance(item, bytes) else (item[1], ndjson("ab", [item])[:-1]) for item in items
    ]


@given(json_values, st.from_regex(EVENT_TYPE, fullmatch=True), st.text() | st.integers())
def test_an_event_of_the_apis_own_reads_as_one_of_an_executor(
    payload: object, event_type: str, timestamp: object
) -> None:
    message = as_message("end-r1.1", event_type, encode(payload), timestamp)
    assert MessageReader().feed(message.raw) == [message]
    assert json.loads(message.data) == {
        "event_id": "end-r1.1", "event_type": event_type, "payload": payload, "timestamp": timestamp,
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [b"hello\n\n", b"data: 1\n\n", b"id: 1\ndata: 1\n\n", b"id: 1\nevent: \xff\ndata: 1\n\n",
     b"id: 1\nevent: a\ndata: 1\ndata: 2\n\n", b"\n\n", b"x" * (MESSAGE_BYTES + 1)],
)  # fmt: skip
def test_anything_else_breaks_the_stream(data: bytes) -> None:
    with pytest.raises(ExecutorBroken):
        MessageReader().feed(data)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_break_a_stream(data: bytes) -> None:
    reader = MessageReader()
    try:
        found = reader.feed(data)
    except ExecutorBroken:
        return
    assert all(isinstance(message, Message) for message in found)
