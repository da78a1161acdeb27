"""What is asked of a worker, by whom, and what is refused before a claim is touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract import limits
from runtime.contract.names import STRIPPED_SIGNATURE
from runtime.contract.settings.words import PushAuth
from tests.support.deliveries import DeliveryBench, RaisingBody, envelope

# --- who asks -------------------------------------------------------------------------------------------------------


def _unreadable() -> RaisingBody:
    return RaisingBody(AssertionError("this body must not be read"))


@pytest.mark.parametrize(
    "authorization", [(), (b"Basic eA==",), (b"Bearer ",), (b"Bearer \xff\xfe.a.b",), (b"Bearer a.b.c",)]
)
async def test_an_unknown_caller_is_refused_before_the_body_is_read(
    deliveries: DeliveryBench, authorization: tuple[bytes, ...]
) -> None:
    answer = await deliveries.worker().deliver(authorization=authorization, body=_unreadable)
    assert answer == "push_token_rejected"
    assert deliveries.store.calls == []


async def test_a_removed_signature_is_refused_unread_and_counted_by_its_reason(clock: ManualClock) -> None:
    """BR-17"""
    deliveries = DeliveryBench(clock, push_auth=PushAuth.IN_PROCESS)
    token = deliveries.identity.token().rpartition(b".")[0] + b"." + STRIPPED_SIGNATURE.encode()
    worker = deliveries.worker()
    answer = await worker.deliver(authorization=(b"Bearer " + token,), body=_unreadable)
    assert answer == "push_signature_stripped"
    assert worker.sample("deliveries_total", outcome="push_signature_stripped") == 1
    assert deliveries.store.calls == []


async def test_two_authorization_headers_are_refused(deliveries: DeliveryBench) -> None:
    """BR-29"""
    good = b"Bearer " + deliveries.identity.token()
    assert await deliveries.worker().deliver(authorization=(good, b"Bearer a.b.c")) == "push_token_rejected"


async def test_a_configured_audience_leaves_the_host_unread(deliveries: DeliveryBench) -> None:
    """BR-28"""
    token = b"Bearer " + deliveries.identity.token(aud="https://evil.test")
    assert await deliveries.worker().deliver(host="evil.test", authorization=(token,)) == "push_token_rejected"
    assert await deliveries.worker().deliver(host="a@b/c") == "completed"


@pytest.mark.parametrize(
    "host", ["", "a@b", "a/b", "a\\b", "a.run.app:8443", "a,b", "-a.run.app", "a..b", "a.", "a" * 300, "é.run.app"]
)
async def test_a_host_that_is_none_gives_no_audience(clock: ManualClock, host: str) -> None:
    """BR-28"""
    worker = DeliveryBench(clock, push_audience=None).worker()
    assert await worker.deliver(host=host, body=_unreadable) == "push_audience_unresolvable"


@pytest.mark.parametrize("host", ["worker-abc-uc.a.run.app", "Worker-ABC-uc.a.run.app", "worker-abc-uc.a.run.app:443"])
async def test_the_called_host_is_the_audience_where_none_is_configured(clock: ManualClock, host: str) -> None:
    assert await DeliveryBench(clock, push_audience=None).worker().deliver(host=host) == "completed"


async def test_keys_out_of_reach_are_a_retry_and_no_refusal(deliveries: DeliveryBench) -> None:
    deliveries.identity.keys.failing = True
    assert await deliveries.worker().deliver(body=_unreadable) == "push_key_set_unavailable"


async def test_a_draining_worker_takes_nothing_new(deliveries: DeliveryBench) -> None:
    worker = deliveries.worker()
    worker.lifecycle.drain()
    assert await worker.deliver(body=_unreadable) == "worker_draining"
    assert await worker.deliver(authorization=(), body=_unreadable) == "push_token_rejected", "who asks comes first"


# --- what is asked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "x"])
async def test_an_encoded_body_is_refused_unread(deliveries: DeliveryBench, encoding: str) -> None:
    """BR-14"""
    answer = await deliveries.worker().deliver(content_encoding=encoding, body=_unreadable)
    assert answer == "unsupported_content_encoding"


async def test_an_identity_encoding_is_none(deliveries: DeliveryBench) -> None:
    assert await deliveries.worker().deliver(content_encoding="Identity") == "completed"


async def test_a_body_that_is_announced_too_large_is_not_read(deliveries: DeliveryBench) -> None:
    """BR-10"""
    announced = limits.PUSH_ENVELOPE_BYTES + 1
    answer = await deliveries.worker().deliver(content_length=announced, body=_unreadable)
    assert answer == "envelope_too_large"


async def test_a_body_that_grows_too_large_is_read_no_further(deliveries: DeliveryBench) -> None:
    """BR-10"""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += limits.MIB
            yield b" " * limits.MIB

    assert await deliveries.worker().deliver(content_length=None, body=endless) == "envelope_too_large"
    assert sent == limits.PUSH_ENVELOPE_BYTES + limits.MIB


async def test_a_body_that_does_not_come_is_not_waited_for(deliveries: DeliveryBench, clock: ManualClock) -> None:
    async def silent() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    delivery = asyncio.create_task(deliveries.worker().deliver(body=silent))
    await clock.advance(30)
    assert await delivery == "processing_timeout"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "envelope_malformed"),
        (b"not json", "envelope_malformed"),
        (b'{"a":"\xff"}', "envelope_malformed"),
        (b"[" * 20000 + b"]" * 20000, "envelope_malformed"),
        ('{"message":{}}'.encode("utf-16"), "envelope_malformed"),
        (envelope(message_id=""), "missing_message_id"),
        (envelope(message_id=" "), "missing_message_id"),
        (envelope().replace(b'"1001"', b"1001"), "envelope_malformed"),
        (envelope(attributes=[]), "envelope_malformed"),
        (envelope(attributes={"a": 1}), "envelope_malformed"),
        (envelope(message_id="1001", message_id_="x").replace(b"message_id_", b"message_id"), "envelope_conflict"),
        (envelope().replace(b"exec-sub", b"other-sub"), "unexpected_subscription"),
    ],
)
async def test_an_envelope_that_cannot_be_read_makes_no_claim(
    deliveries: DeliveryBench, body: bytes, code: str
) -> None:
    """BR-01, BR-02, BR-07, BR-09"""
    assert await deliveries.worker().deliver(body) == code
    assert deliveries.store.calls == []


async def test_either_spelling_of_the_id_makes_the_same_claim(deliveries: DeliveryBench) -> None:
    """BR-01"""
    assert await deliveries.worker().deliver(envelope()) == "completed"
    snake = envelope().replace(b"messageId", b"message_id").replace(b"publishTime", b"publish_time")
    assert await deliveries.worker().deliver(snake) == "duplicate_settled"


@pytest.mark.parametrize("attributes", [{}, {"attributes": None}])
async def test_attributes_may_be_missing(deliveries: DeliveryBench, attributes: dict[str, Any]) -> None:
    """BR-02"""
    assert await deliveries.worker().deliver(envelope(orderingKey="k", **attributes)) == "completed"


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.1Z", "2026-11-30T12:00:00.123456789Z", "2026-11-30T12:00:00+00:00",
        "2026-12-31T23:59:60Z", "garbage", None, 5,
    ],
)  # fmt: skip
async def test_the_publish_time_decides_nothing(deliveries: DeliveryBench, time: object) -> None:
    """BR-06"""
    assert await deliveries.worker().deliver(envelope(publishTime=time)) == "completed"


async def test_the_largest_body_that_is_allowed_is_worked(deliveries: DeliveryBench) -> None:
    """BR-10"""
    short = envelope(attributes={"pad": ""})
    body = envelope(attributes={"pad": "x" * (limits.PUSH_ENVELOPE_BYTES - len(short))})
    assert len(body) == limits.PUSH_ENVELOPE_BYTES
    assert await deliveries.worker().deliver(body) == "completed"
