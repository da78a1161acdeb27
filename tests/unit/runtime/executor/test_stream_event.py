"""Frames: nothing that a job writes can end a message, or begin another one."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.values import encode
from runtime.executor.stream_event import StreamEvent, ndjson, stream_event
from tests.support.json_values import json_values


def event(payload: object) -> StreamEvent:
    return stream_event(7, "name", "tick", encode(payload, EVENT_BYTES), "2026-01-01T00:00:00.000Z")


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
    (message,) = messages(event({"text": text}).sse())
    assert (message["event"], message["id"]) == ("tick", "name-7")
    assert json.loads(message["data"])["payload"] == {"text": text}
    assert ndjson([event(text)]).count(b"\n") == 1


@given(json_values)
def test_every_value_makes_one_line_and_one_message(value: object) -> None:
    framed = event(value)
    (message,) = messages(framed.sse())
    assert json.loads(message["data"]) == json.loads(ndjson([framed]))
    assert json.loads(message["data"])["payload"] == value
    assert not framed.sse().startswith(b"\xef\xbb\xbf")
