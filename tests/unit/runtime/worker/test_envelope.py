"""The quick way to read a push body never says anything else than the strict one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.envelope import EnvelopeError, PushEnvelope, parse_push
from runtime.worker.envelope import _plain, read_push
from tests.support.deliveries import envelope

MESSAGE: Final[dict[str, object]] = {
    "attributes": {"a": "b"}, "data": "e30=", "messageId": "1", "message_id": "1",
    "publishTime": "2026-01-01T00:00:00Z", "publish_time": "2026-01-01T00:00:00Z", "orderingKey": "k",
}  # fmt: skip
REAL: Final[dict[str, object]] = {
    "message": MESSAGE,
    "subscription": "projects/p/subscriptions/s",
    "deliveryAttempt": 2,
}


def said(read: Callable[[bytes], PushEnvelope], body: bytes) -> PushEnvelope | str:
    try:
        return read(body)
    except EnvelopeError as error:
        return f"{error.code}: {error}"


@pytest.mark.parametrize("body", [json.dumps(REAL).encode(), json.dumps(REAL, indent=1).encode(), envelope()])
def test_what_the_broker_sends_is_read_the_quick_way(body: bytes) -> None:
    assert _plain(body) == parse_push(body)


VALUES: Final[st.SearchStrategy[object]] = st.sampled_from(
    ["1", "", " ", "2", None, 1, 0, -1, 1.0, 2**70, True, [], {}, {"a": "b"}, {"a": 1}, "\u00fc", "x" * 1025, "\x7f"]
)
NAMES = st.sampled_from(
    ["messageId", "message_id", "publishTime", "publish_time", "orderingKey", "ordering_key", "data", "attributes",
     "subscription", "deliveryAttempt", "delivery_attempt", "message", "other", "__proto__"]
)  # fmt: skip


def written(pairs: list[tuple[str, object]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """What the broker sends, with fields changed, added, taken away and repeated."""
    places: dict[str, list[tuple[str, object]]] = {
        "message": [(name, json.dumps(value)) for name, value in MESSAGE.items()],
        "push": [(name, json.dumps(value)) for name, value in REAL.items() if name != "message"],
    }
    for _ in range(draw(st.integers(0, 3))):
        pairs = places[draw(st.sampled_from(["message", "push"]))]
        at = draw(st.integers(0, len(pairs)))
        change = draw(st.sampled_from(["add", "change", "remove", "repeat"]))
        if change == "add":
            pairs.insert(at, (draw(NAMES), json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans()))))
        elif at < len(pairs):
            if change == "remove":
                del pairs[at]
            elif change == "repeat":
                pairs.insert(draw(st.integers(0, len(pairs))), pairs[at])
            else:
                pairs[at] = (pairs[at][0], json.dumps(draw(VALUES)))
    if draw(st.booleans()):
        places["message"].append(("attributes", '{"a":"b","a":"b"}'))
    return written([*places["push"], ("message", written(places["message"]))]).encode()


@given(bodies())
def test_a_body_of_any_fields_is_read_as_strictly(body: bytes) -> None:
    assert said(read_push, body) == said(parse_push, body)


WHOLE = json.dumps(REAL).encode()


@given(st.integers(0, len(WHOLE)), st.integers(0, 3), st.binary(max_size=3))
def test_a_body_of_any_bytes_is_read_as_strictly(at: int, cut: int, put: bytes) -> None:
    body = WHOLE[:at] + put + WHOLE[at + cut :]
    assert said(read_push, body) == said(parse_push, body)


@pytest.mark.parametrize("byte", range(256))
def test_a_text_with_any_byte_in_it_is_read_as_strictly(byte: int) -> None:
    body = WHOLE.replace(b"e30=", bytes([byte]))
    assert said(read_push, body) == said(parse_push, body)


@pytest.mark.parametrize(
    "number", ["1.0", "1e0", "-0", "01", "1" * 30, "1e400", "NaN", "-1", "0", "true", "9223372036854775808"]
)
def test_a_count_in_any_spelling_is_read_as_strictly(number: str) -> None:
    body = WHOLE.replace(b": 2}", f": {number}}}".encode())
    assert said(read_push, body) == said(parse_push, body)
