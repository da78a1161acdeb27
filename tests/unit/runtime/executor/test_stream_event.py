"""Frames: nothing that a job writes can end a message, or begin another one."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.event import Emitted, NumberedEvents, Stretches, tails
from runtime.execution.values import encode
from runtime.executor.stream_event import Written, ndjson, read_back, sse
from tests.support.json_values import json_values

NOW = "2026-01-01T00:00:00.000Z"
stamps = st.sampled_from([NOW, "2026-01-01T00:00:00.001Z"])


def event(payload: object, position: int = 7, event_type: str = "tick", timestamp: str = NOW) -> Emitted:
    return (position, event_type, encode(payload, EVENT_BYTES), timestamp)


def messages(data: bytes) -> list[dict[str, str]]:
    """What a reader makes of server-sent events, as the standard says: lines end with CR LF, CR or LF."""
    found = []
    for block in re.split("(?:\r\n|\r|\n){2}", data.decode()):
        fields: dict[str, str] = {}
        for line in filter(None, re.split("\r\n|\r|\n", block)):
            name, _, value = line.partition(":")
            fields[name] = f"{fields[name]}\n{value[1:]}" if name in fields else value[1:]
        if fields:
            found.append(fields)
    return found


@pytest.mark.parametrize(
    "text", ["a\nevent: done\ndata: {}\n\n", "x\ry", "x\r\n\r\ny", "\0", "\ufeff", "\u2028\u2029\x85", "id: 1"]
)
def test_a_text_that_looks_like_messages_arrives_as_one_with_the_same_text(text: str) -> None:
    """BR-65."""
    (message,) = messages(sse("name", [event({"text": text})]))
    assert (message["event"], message["id"]) == ("tick", "name-7")
    assert json.loads(message["data"])["payload"] == {"text": text}
    assert ndjson("name", [event(text)]).count(b"\n") == 1


@given(json_values)
def test_every_value_makes_one_line_and_one_message(value: object) -> None:
    framed = sse("name", [event(value)])
    (message,) = messages(framed)
    assert json.loads(message["data"]) == json.loads(ndjson("name", [event(value)]))
    assert json.loads(message["data"])["payload"] == value
    assert not framed.startswith(b"\xef\xbb\xbf")


@given(
    st.lists(
        st.tuples(json_values, st.sampled_from(["tick", "log"]), st.sampled_from([NOW, NOW[:-1] + "+"])), min_size=1
    )
)
def test_events_in_stretches_are_written_as_each_by_itself(made: list[tuple[object, str, str]]) -> None:
    events = [event(payload, place, kind, stamp) for place, (payload, kind, stamp) in enumerate(made, 7)]
    stretches = Stretches.of(events)
    assert (list(stretches), len(stretches), stretches.last) == (events, len(events), events[-1][0])
    assert (stretches[-1], stretches[1:]) == (events[-1], events[1:])
    assert ndjson("name", stretches) == b"".join(ndjson("name", [event]) for event in events)
    assert sse("name", stretches) == b"".join(sse("name", [event]) for event in events)
    assert list(tails(stretches)) == list(tails(events))


@given(st.lists(st.builds(event, json_values, st.integers(1, 10**9), st.sampled_from(["tick", "log"]), stamps)))
def test_events_that_come_together_are_each_written_with_their_own_fields(events: list[Emitted]) -> None:
    whole = [
        {"event_id": f"name-{position}", "event_type": kind, "payload": json.loads(payload), "timestamp": timestamp}
        for position, kind, payload, timestamp in events
    ]
    assert [json.loads(line) for line in ndjson("name", events).splitlines()] == whole
    assert read_back(ndjson("name", events)) == read_back(sse("name", events)) == events
    for written in (ndjson("name", events), sse("name", events)):
        kept = Written(written, len(events))
        assert list(kept) == events
        assert list(tails(kept)) == list(tails(events))
        assert list(NumberedEvents("r1", 2, 7, kept).encoded()) == list(NumberedEvents("r1", 2, 7, events).encoded())
    found = messages(sse("name", events))
    assert [json.loads(message["data"]) for message in found] == whole
    assert [(message["id"], message["event"]) for message in found] == [
        (fields["event_id"], fields["event_type"]) for fields in whole
    ]
