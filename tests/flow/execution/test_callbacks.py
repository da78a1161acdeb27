"""The client of the callbacks against a real server that answers as a test says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runtime.adapters.clock import ManualClock, SystemClock
from runtime.contract.states import FailureClass, ProgressStatus, RunState
from runtime.execution.batcher import BatchRules, EventBatcher, EventSource
from runtime.execution.callback_messages import (
    CallbackRefused,
    CallbackUnavailable,
    EventsRequest,
    LeaseNotCurrent,
    ProgressRequest,
    SequenceGap,
)
from runtime.execution.callbacks import ANSWER_BYTES, CallbackRules, ExecutionCallbacks
from runtime.execution.event import NumberedEvents, event_id
from runtime.observability.metrics import Metrics

TOKEN = "the.job.token"
GOOD: dict[str, Any] = {
    "accepted": True,
    "status": "running",
    "lease_acquired": True,
    "lease_ms_left": 150000,
    "lease_expires_at": 1,
    "attempt": 2,
    "next_sequence": 5,
    "cancel_requested": False,
}


class Server:
    """Answers the nth request with the nth script, and every later one with the last.

    Attributes:
        scripts: a status, a response, or a function of the request.
        bodies: what arrived, in order.
        requests: headers and path of what arrived.
    """

    def __init__(self) -> None:
        self.scripts: list[Any] = [web.json_response(GOOD)]
        self.bodies: list[Any] = []
        self.requests: list[web.BaseRequest] = []
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.requests.append(request)
        script = self.scripts[min(len(self.bodies), len(self.scripts)) - 1]
        if isinstance(script, int):
            return web.Response(status=script)
        if callable(script):
            answer = await script(request)
            assert isinstance(answer, web.StreamResponse)
            return answer
        assert isinstance(script, dict | web.Response)
        return web.json_response(GOOD) if isinstance(script, web.Response) else web.json_response(**script)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    one = Server()
    runner = web.ServerRunner(web.Server(one.handle, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    one.url = f"http://127.0.0.1:{port}"
    yield one
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(trust_env=False) as one:
        yield one


class Pauses:
    """A clock that goes on by itself and remembers what it was asked to wait."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._clock = SystemClock()
        self.now = self._clock.now
        self.monotonic = self._clock.monotonic
        self.timeout = self._clock.timeout

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def client(server: Server, session: aiohttp.ClientSession, **options: Any) -> ExecutionCallbacks:
    rules = CallbackRules(version="1.2.3", timeout=timedelta(seconds=options.pop("timeout", 5)))
    options.setdefault("clock", Pauses())
    return ExecutionCallbacks(session, server.url + "/", TOKEN, rules=rules, **options)


def running(**more: Any) -> ProgressRequest:
    return ProgressRequest(job_id="r1.1", lease_token="t", status=ProgressStatus.RUNNING, **more)


def events(first: int, count: int = 1) -> EventsRequest:
    emitted = [(0, "tick", b'{"n":"\xc3\xbc"}', "2026-01-01T00:00:00.000Z")] * count
    return EventsRequest(job_id="r1.1", lease_token="t", events=NumberedEvents("r1", 1, first, emitted))


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    data = {"type": "about:blank", "title": "x", "status": status, "code": code, "detail": "because", **more}
    return {"data": data, "status": status, "content_type": "application/problem+json"}


async def test_progress_is_sent_and_read_as_the_contract_says(server: Server, session: aiohttp.ClientSession) -> None:
    answer = await client(server, session).progress(
        running(
            lease_duration_ms=150000, progress=40, current_step="half", last_failure_class=FailureClass.DISPATCH_ERROR
        )
    )
    assert (answer.accepted, answer.status, answer.lease_ms_left) == (True, RunState.RUNNING, 150000)
    assert (answer.attempt, answer.next_sequence, answer.cancel_requested) == (2, 5, False)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/execution/progress")
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["User-Agent"] == "holdfast-executor/1.2.3"
    assert request.headers["Content-Type"] == "application/json"
    assert server.bodies == [
        {
            "job_id": "r1.1",
            "lease_token": "t",
            "status": "running",
            "lease_duration_ms": 150000,
            "progress": 40,
            "current_step": "half",
            "last_failure_class": "dispatch_error",
        }
    ]


async def test_a_result_of_null_and_no_result_are_two_things(server: Server, session: aiohttp.ClientSession) -> None:
    one = client(server, session)
    await one.progress(running(result=b"null"))
    await one.progress(running(result=b'{"a":[1]}'))
    await one.progress(running())
    assert [body.get("result", "absent") for body in server.bodies] == [None, {"a": [1]}, "absent"]


async def test_events_are_sent_and_read_as_the_contract_says(server: Server, session: aiohttp.ClientSession) -> None:
    server.scripts = [{"data": {"accepted": True, "next_sequence": 2}}]
    assert await client(server, session).events(events(0, 2)) == 2
    assert server.requests[0].path == "/api/v1/execution/events"
    assert server.bodies[0]["events"][1] == {
        "id": event_id("r1", 1, 1),
        "sequence": 1,
        "event_type": "tick",
        "payload": {"n": "ü"},
        "timestamp": "2026-01-01T00:00:00.000Z",
    }


async def test_a_server_that_recovers_gets_the_request_once_more_until_it_answers(
    server: Server, session: aiohttp.ClientSession
) -> None:
    """BR-74: 500, 500, 200 is one delivery."""
    metrics = Metrics()
    server.scripts = [500, 500, {"data": {"accepted": True, "next_sequence": 1}}]
    assert await client(server, session, meters=metrics).events(events(0)) == 1
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[2]
    assert metrics.registry.get_sample_value("callback_retries_total") == 2


async def test_a_server_that_stays_broken_is_given_up_after_its_retries(
    server: Server, session: aiohttp.ClientSession
) -> None:
    server.scripts = [500]
    with pytest.raises(CallbackUnavailable, match="not answered after 4 tries: status 500"):
        await client(server, session).events(events(0))
    assert len(server.bodies) == 4


async def test_a_server_that_hangs_costs_one_timeout_for_each_try(
    server: Server, session: aiohttp.ClientSession
) -> None:
    """BR-74: a hanging callback is not waited for longer than its own limit."""

    gone: asyncio.Queue[None] = asyncio.Queue()

    async def hang(_request: web.BaseRequest) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            gone.put_nowait(None)
        raise AssertionError

    server.scripts = [hang]
    with pytest.raises(CallbackUnavailable, match=r"no answer within 0\.05 s"):
        await client(server, session, timeout=0.05).events(events(0))
    assert len(server.bodies) == 4
    for _ in server.bodies:
        await gone.get()


async def test_nobody_listening_is_tried_again_too(session: aiohttp.ClientSession) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = Server()
        server.url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(CallbackUnavailable, match="no connection"):
            await client(server, session).progress(running())


@pytest.mark.parametrize("status", [301, 302, 307, 405, 408, 409, 425, 429, 500, 502, 503, 504])
async def test_answers_that_are_not_final_are_tried_again(
    server: Server, session: aiohttp.ClientSession, status: int
) -> None:
    server.scripts = [status, web.json_response(GOOD)]
    await client(server, session).progress(running())
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("status", "of_the_run"), [(400, False), (401, True), (403, True), (404, True), (413, False), (422, False)]
)
async def test_refusals_are_final_at_once(
    server: Server, session: aiohttp.ClientSession, status: int, *, of_the_run: bool
) -> None:
    server.scripts = [problem(status, "some_code")]
    with pytest.raises(CallbackRefused, match="some_code because") as caught:
        await client(server, session).progress(running())
    assert (len(server.bodies), caught.value.status, caught.value.of_the_run) == (1, status, of_the_run)


@pytest.mark.parametrize(("code", "error"), [("lease_not_current", LeaseNotCurrent), ("sequence_gap", SequenceGap)])
async def test_conflicts_that_mean_something_are_final(
    server: Server, session: aiohttp.ClientSession, code: str, error: type[Exception]
) -> None:
    server.scripts = [problem(409, code, next_sequence=3)]
    with pytest.raises(error):
        await client(server, session).events(events(9))
    assert len(server.bodies) == 1


async def test_a_redirect_is_not_followed_and_takes_no_token_with_it(
    server: Server, session: aiohttp.ClientSession
) -> None:
    async def elsewhere(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": f"{server.url}/elsewhere"})

    server.scripts = [elsewhere]
    with pytest.raises(CallbackUnavailable, match="status 307"):
        await client(server, session).progress(running())
    assert {request.path for request in server.requests} == {"/api/v1/execution/progress"}


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b"[]", b'{"accepted": "yes", "status": "running"}', b'{"accepted": true, "status": "odd"}',
     b"\xff", b"[" * 10_000, b"x" * (ANSWER_BYTES + 1)],
)  # fmt: skip
async def test_an_answer_that_cannot_be_read_is_no_answer(
    server: Server, session: aiohttp.ClientSession, body: bytes
) -> None:
    async def odd(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body)

    server.scripts = [odd]
    with pytest.raises(CallbackUnavailable):
        await client(server, session).progress(running())
    assert len(server.bodies) == 4


async def test_an_answer_that_never_ends_is_cut(server: Server, session: aiohttp.ClientSession) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    server.scripts = [endless, web.json_response(GOOD)]
    await client(server, session).progress(running())
    assert len(server.bodies) == 2


@pytest.mark.parametrize(("header", "pause"), [("7", 7), ("120", 30), ("0", 0.05), ("soon", 0.05), ("-5", 0.05)])
async def test_the_server_may_ask_for_patience_but_only_so_much(
    server: Server, session: aiohttp.ClientSession, header: str, pause: float
) -> None:
    async def busy(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": header})

    server.scripts = [busy, web.json_response(GOOD)]
    clock = Pauses()
    await client(server, session, clock=clock, jitter=lambda most: most / 2).progress(running())
    assert clock.slept == [pause]


async def test_pauses_grow_and_are_spread(server: Server, session: aiohttp.ClientSession) -> None:
    server.scripts = [*[503] * 9, web.json_response(GOOD)]
    clock = Pauses()
    end = clock.monotonic() + 1e6
    await client(server, session, clock=clock, jitter=lambda most: most).progress(running(), until=lambda: end)
    assert clock.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])


async def test_tries_go_on_for_as_long_as_there_is_time_and_no_longer(
    server: Server, session: aiohttp.ClientSession
) -> None:
    server.scripts = [503]
    clock = ManualClock()
    one = client(server, session, clock=clock, jitter=lambda most: most)
    task = asyncio.create_task(one.progress(running(), until=lambda: 20))
    while not task.done():
        await asyncio.sleep(0)
        await clock.advance(0.05)
    with pytest.raises(CallbackUnavailable):
        task.result()
    assert len(server.bodies) > 4, "more often than a number of retries would allow"
    assert 19 < clock.monotonic() < 21
    tries = len(server.bodies)
    with pytest.raises(CallbackUnavailable, match="after 0 tries"):
        await one.progress(running(), until=lambda: 20)
    assert len(server.bodies) == tries, "without time nothing is sent"


async def test_no_error_holds_the_token(server: Server, session: aiohttp.ClientSession) -> None:
    one = client(server, session)
    errors: list[BaseException] = []
    for script in (500, problem(403, "job_mismatch")):
        server.scripts = [script]
        with pytest.raises((CallbackUnavailable, CallbackRefused)) as caught:
            await one.progress(running())
        errors.append(caught.value)
    assert all(TOKEN not in f"{error!r} {error}" for error in errors)
    assert TOKEN not in repr(one)


async def test_batches_cross_the_wire_in_order_before_the_end(server: Server, session: aiohttp.ClientSession) -> None:
    """BR-74: 250 events are 100, 100 and 50, and all of them are there when closing returns."""

    async def accept(_request: web.BaseRequest) -> web.StreamResponse:
        following = server.bodies[-1]["events"][-1]["sequence"] + 1
        return web.json_response({"accepted": True, "next_sequence": following})

    server.scripts = [500, accept]
    clock = SystemClock()
    batcher = EventBatcher(
        client(server, session, clock=clock),
        EventSource(run_id="r1", job_id="r1.1", lease_token="t", attempt=1, next_sequence=0),
        clock,
        until=lambda: clock.monotonic() + 60,
        rules=BatchRules(size=100),
    )
    consumer = batcher.start()
    for number in range(250):
        await batcher.emit("tick", number)
    await batcher.close()
    assert consumer.done()
    batches: list[list[int]] = [[event["payload"] for event in body["events"]] for body in server.bodies]
    assert [len(batch) for batch in batches] == [100, 100, 100, 50], "the first was answered with 500, and repeated"
    assert [number for batch in batches[1:] for number in batch] == list(range(250))
