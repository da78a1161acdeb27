"""Spans as OpenTelemetry's own receiver gets them, and traces that go on where nothing is recorded."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runtime.adapters.clock import ManualClock
from runtime.adapters.otlp import REFRESH_SECONDS, FreshToken, TracingUnavailable, open_tracing
from runtime.contract.settings.tracing import TracingSettings
from runtime.contract.trace_context import TraceContext
from runtime.ports.tokens import TokenUnavailable
from runtime.ports.tracing import PASSED_ON, SpanKind, carried, current
from tests.support.trace_receiver import ORIGIN, attributes, receiving

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = TraceContext(TRACE, SPAN, sampled=True, state="vendor=1")


class Metadata:
    """Tokens, or none while `broken`."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.asked = 0

    async def access_token(self, scope: str) -> str:
        assert scope == "https://www.googleapis.com/auth/trace.append"
        self.asked += 1
        if self.broken:
            raise TokenUnavailable("the metadata server answered 503")
        return f"token-{self.asked}"

    async def id_token(self, audience: str) -> str:
        raise AssertionError(audience)


async def test_a_span_reaches_the_receiver_as_a_child_of_its_caller() -> None:
    async with receiving() as (receiver, tracing):
        with tracing.span("/v1/runs", SpanKind.SERVER, parent=CALLER, attributes={"http.request.method": "POST"}) as up:
            up.set("http.response.status_code", 202)
            around = current()
            with tracing.span("inner"):
                pass
        await tracing.close()
    outer, inner = receiver.one("/v1/runs"), receiver.one("inner")
    assert receiver.resource == {"service.name": "executor", "service.version": "1", "gcp.project_id": "p-test"}
    assert (outer.trace_id.hex(), outer.parent_span_id.hex()) == (TRACE, SPAN)
    assert (inner.trace_id.hex(), inner.parent_span_id) == (TRACE, outer.span_id)
    assert attributes(outer) == {"http.request.method": "POST", "http.response.status_code": 202}
    assert outer.kind == outer.SPAN_KIND_SERVER
    assert around == TraceContext(TRACE, outer.span_id.hex(), sampled=True, state="vendor=1")


async def test_a_trace_begins_where_the_caller_has_none() -> None:
    async with receiving() as (receiver, tracing):
        with tracing.span("work", SpanKind.CONSUMER):
            headers = carried()
        await tracing.close()
    span = receiver.one("work")
    assert not span.parent_span_id
    assert headers == {"traceparent": f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"}


async def test_what_the_caller_does_not_record_is_not_recorded_here_and_is_carried_on() -> None:
    async with receiving() as (receiver, tracing):
        with tracing.span("work", parent=TraceContext(TRACE, SPAN, sampled=False)):
            headers = carried()
        await tracing.close()
    assert receiver.spans == {}
    assert headers["traceparent"].startswith(f"00-{TRACE}-")
    assert headers["traceparent"].endswith("-00")


async def test_a_failure_is_named_by_its_kind_and_never_by_its_text() -> None:
    async with receiving() as (receiver, tracing):
        with pytest.raises(ValueError, match="hunter2"), tracing.span("work"):
            raise ValueError("the password is hunter2")
        await tracing.close()
    span = receiver.one("work")
    assert (span.status.code, span.status.message) == (span.status.STATUS_CODE_ERROR, "ValueError")
    assert "hunter2" not in str(span)


async def test_spans_that_nobody_takes_hold_up_no_end() -> None:
    async with receiving() as (_, tracing):
        with tracing.span("work"):
            pass
    # The receiver is gone; the exporter goes on trying for longer than a drain may take.
    async with asyncio.timeout(30):
        await tracing.close()


def test_a_trace_goes_on_where_nothing_is_recorded() -> None:
    with PASSED_ON.span("work", parent=CALLER) as span:
        span.set("name", "value")
        with PASSED_ON.span("inner"):
            assert carried() == {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
    assert (current(), carried()) == (None, {})


async def test_the_exporting_thread_has_a_fresh_token_through_an_outage() -> None:
    clock, tokens = ManualClock(), Metadata()
    token, seen = FreshToken(tokens, clock), list[tuple[object, Exception | None]]()

    def ask() -> tuple[object, Exception | None]:
        token(None, lambda metadata, error: seen.append((metadata, error)))  # type: ignore[arg-type]  # gRPC's own context
        return seen[-1]

    assert isinstance(ask()[1], TokenUnavailable)
    keeping = asyncio.create_task(token.run())
    await clock.advance(0)
    assert ask() == ((("authorization", "Bearer token-1"),), None)
    await clock.advance(REFRESH_SECONDS)
    tokens.broken = True
    await clock.advance(REFRESH_SECONDS)
    assert ask() == ((("authorization", "Bearer token-2"),), None)
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_a_process_that_must_trace_does_not_start_without_a_token() -> None:
    clock, tokens = ManualClock(), Metadata(broken=True)
    settings = TracingSettings(endpoint="https://t.example", timeout=timedelta(seconds=1), required=True)

    async def start() -> None:
        async with open_tracing(settings, "https://t.example", ORIGIN, tokens, clock):
            raise AssertionError("it started")

    starting = asyncio.create_task(start())
    while not starting.done():
        await clock.advance(1)
    with pytest.raises(TracingUnavailable, match="GCP_REQUIRE_OTEL is true"):
        await starting
    assert tokens.asked > 1
