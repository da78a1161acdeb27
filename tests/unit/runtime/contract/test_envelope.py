"""The push envelope and the dispatch message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import limits
from runtime.contract.envelope import (
    DispatchMessage,
    EnvelopeError,
    decode_data,
    encode_dispatch,
    parse_dispatch,
    parse_push,
)
from runtime.contract.outcomes import OUTCOMES
from tests.support.json_values import json_objects

SUBSCRIPTION = "projects/p-test/subscriptions/exec-sub"


def push(*, message: dict[str, Any] | None = None, **envelope: Any) -> bytes:
    fields = {"data": "e30=", "messageId": "1001", "publishTime": "2026-11-30T12:00:00.123Z", **(message or {})}
    present = {name: value for name, value in fields.items() if value is not ...}
    return json.dumps({"message": present, "subscription": SUBSCRIPTION, **envelope}).encode()


def refusal(body: bytes) -> str:
    with pytest.raises(EnvelopeError) as raised:
        parse_push(body)
    assert raised.value.code in OUTCOMES
    return raised.value.code


def test_an_envelope_is_read_whole() -> None:
    body = push(message={"attributes": {"run_id": "r"}, "orderingKey": "k"}, deliveryAttempt=3)
    envelope = parse_push(body)
    assert envelope.message_id == "1001"
    assert envelope.publish_time == "2026-11-30T12:00:00.123Z"
    assert envelope.attributes == {"run_id": "r"}
    assert envelope.data_encoded == "e30="
    assert envelope.subscription == SUBSCRIPTION
    assert envelope.delivery_attempt == 3
    assert envelope.ordering_key == "k"


def test_either_spelling_alone_gives_the_same() -> None:
    """BR-01"""
    camel = parse_push(push(message={"orderingKey": "k"}, deliveryAttempt=2))
    snake = parse_push(
        push(
            message={"messageId": ..., "publishTime": ..., "message_id": "1001", "ordering_key": "k",
                     "publish_time": "2026-11-30T12:00:00.123Z"},
            delivery_attempt=2,
        )
    )  # fmt: skip
    assert camel == snake
    assert parse_push(push(message={"message_id": "1001"})).message_id == "1001", "both, and they agree"


@pytest.mark.parametrize(
    "message",
    [
        {"message_id": "1002"},
        {"publish_time": "2026-11-30T12:00:01Z"},
        {"orderingKey": "a", "ordering_key": "b"},
    ],
)
def test_two_spellings_that_differ_are_a_conflict(message: dict[str, Any]) -> None:
    """BR-01"""
    assert refusal(push(message=message)) == "envelope_conflict"


def test_two_counts_that_differ_are_a_conflict() -> None:
    assert refusal(push(deliveryAttempt=1, delivery_attempt=2)) == "envelope_conflict"


@pytest.mark.parametrize(
    ("message_id", "code"),
    [
        (..., "missing_message_id"),
        (None, "missing_message_id"),
        ("", "missing_message_id"),
        (" \t", "missing_message_id"),
        (1001, "envelope_malformed"),
        (True, "envelope_malformed"),
        (["1001"], "envelope_malformed"),
        ("1" * 1025, "envelope_malformed"),
    ],
)
def test_without_an_id_no_claim_can_be_made(message_id: object, code: str) -> None:
    """BR-01"""
    assert refusal(push(message={"messageId": message_id})) == code


@pytest.mark.parametrize("attributes", [..., None, {}])
def test_no_attributes_are_no_fault(attributes: object) -> None:
    """BR-02"""
    assert parse_push(push(message={"attributes": attributes, "orderingKey": "k"})).attributes == {}


@pytest.mark.parametrize("attributes", [[], {"a": 1}, {"a": None}, "a", 0, False])
def test_attributes_of_another_kind_are_malformed(attributes: object) -> None:
    """BR-02"""
    assert refusal(push(message={"attributes": attributes})) == "envelope_malformed"


@pytest.mark.parametrize(
    "time",
    ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00.1Z", "2026-11-30T12:00:00.123456789Z", "2026-12-31T23:59:60Z",
     "2026-11-30T12:00:00+00:00", "garbage", "", None, 5, {}, ...],
)  # fmt: skip
def test_the_publish_time_decides_nothing(time: object) -> None:
    """BR-06"""
    envelope = parse_push(push(message={"publishTime": time}))
    assert envelope.publish_time == (time if isinstance(time, str) else None)


@pytest.mark.parametrize("data", [..., None, ""])
def test_a_message_without_data_has_no_bytes(data: object) -> None:
    assert decode_data(parse_push(push(message={"data": data})).data_encoded) == b""


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"1", b"{}", b'{"message":[]}', b'{"message":null,"subscription":"s"}',
        b'{"a":"\xff"}', b"[" * 20000 + b"]" * 20000, '{"message":{}}'.encode("utf-16"),
        push(message={"data": 5}), push(message={"data": {}}), push(subscription=None), push(subscription=5),
        push(deliveryAttempt="1"), push(deliveryAttempt=True), push(deliveryAttempt=-1), push(deliveryAttempt=1.0),
        push(message={"messageId": "\ud800"}), push(message={"orderingKey": 1}),
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_malformed(body: bytes) -> None:
    """BR-07, BR-09"""
    assert refusal(body) == "envelope_malformed"


@pytest.mark.parametrize("data", ["____dGVzdA==", "dGVz\ndA==", "dGVzdA", "_-8=", "dGVzdA==AAAA"])
def test_data_that_is_not_base64_is_found_only_when_it_is_decoded(data: str) -> None:
    """BR-04"""
    envelope = parse_push(push(message={"data": data}))
    with pytest.raises(EnvelopeError) as raised:
        decode_data(envelope.data_encoded)
    assert raised.value.code == "data_not_base64"


def test_data_is_accepted_up_to_its_limit_and_refused_above() -> None:
    """BR-10"""
    largest = base64.b64encode(bytes(limits.MESSAGE_DATA_BYTES)).decode()
    assert len(decode_data(largest)) == limits.MESSAGE_DATA_BYTES
    for size in (limits.MESSAGE_DATA_BYTES + 1, limits.MESSAGE_DATA_BYTES + 3):
        with pytest.raises(EnvelopeError) as raised:
            decode_data(base64.b64encode(bytes(size)).decode())
        assert raised.value.code == "message_too_large"


@given(st.binary(max_size=80) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["message", "messageId", "message_id", "data", "attributes", "subscription",
                                       "deliveryAttempt", "v", "job_id", "payload"]), inner, max_size=4),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_bytes_raise_anything_but_their_error(raw: bytes) -> None:
    for parse in (parse_push, parse_dispatch):
        assert code_of(parse, raw) in {*OUTCOMES, None}


def code_of(parse: Callable[[bytes], object], raw: bytes) -> str | None:
    try:
        parse(raw)
    except EnvelopeError as error:
        return error.code
    return None


@given(st.text(min_size=1).filter(lambda text: bool(text.strip())), json_objects)
def test_a_job_is_read_back_as_it_was_sent(job_id: str, payload: dict[str, object]) -> None:
    assert parse_dispatch(encode_dispatch(job_id, payload)) == DispatchMessage(job_id, payload)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"v": 2, "job_id": "j", "payload": {}}, "envelope_version_unsupported"),
        ({"v": True, "job_id": "j", "payload": {}}, "envelope_version_unsupported"),
        ({"v": 1.0, "job_id": "j", "payload": {}}, "envelope_version_unsupported"),
        ({"job_id": "j", "payload": {}}, "envelope_version_unsupported"),
        ({"v": 1, "payload": {}}, "invalid_execution_payload"),
        ({"v": 1, "job_id": " ", "payload": {}}, "invalid_execution_payload"),
        ({"v": 1, "job_id": 5, "payload": {}}, "invalid_execution_payload"),
        ({"v": 1, "job_id": "j"}, "invalid_execution_payload"),
        ({"v": 1, "job_id": "j", "payload": "x"}, "invalid_execution_payload"),
        ([], "invalid_execution_payload"),
    ],
)
def test_a_message_that_is_no_job_is_refused(message: object, code: str) -> None:
    with pytest.raises(EnvelopeError) as raised:
        parse_dispatch(json.dumps(message).encode())
    assert raised.value.code == code


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 20000 + b"]" * 20000])
def test_data_that_is_no_json_is_refused(data: bytes) -> None:
    """BR-07"""
    with pytest.raises(EnvelopeError) as raised:
        parse_dispatch(data)
    assert raised.value.code == "invalid_execution_payload"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, "\ud800", b"x"])
def test_a_payload_that_is_no_json_is_never_sent(value: object) -> None:
    with pytest.raises(EnvelopeError) as raised:
        encode_dispatch("j", {"a": value})
    assert raised.value.code == "invalid_execution_payload"


def test_a_payload_that_no_message_carries_is_never_sent() -> None:
    with pytest.raises(EnvelopeError) as raised:
        encode_dispatch("j", {"a": "x" * limits.MESSAGE_DATA_BYTES})
    assert raised.value.code == "message_too_large"


def test_an_error_repeats_nothing_of_the_message() -> None:
    for body in (b'{"hunter2"', push(message={"data": "hunter2!", "attributes": {"a": 1}})):
        with pytest.raises(EnvelopeError) as raised:
            parse_push(body)
        assert "hunter2" not in str(raised.value)
