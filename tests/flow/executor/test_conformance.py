"""The executor over HTTP: every route, status and order of a stream, as data."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest

from runtime.contract.limits import JOB_BODY_BYTES
from runtime.contract.states import ProgressStatus
from runtime.execution.answer import failed
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_engine import Script, until_cancelled
from tests.support.served_executor import ServedExecutor

ROUTES = ("/execute", "/execute/stream", "/execute/sse")
STREAMS = ROUTES[1:]
PROBLEM = "application/problem+json"

Make = Callable[[ServedExecutor], object]


def tampered(served: ServedExecutor, **changes: Any) -> dict[str, Any]:
    return {**served.job(), **changes}


def token_of(served: ServedExecutor, change: Callable[[str], object]) -> dict[str, Any]:
    job = served.job()
    return {**job, "executor_jwt": change(job["executor_jwt"])}


def without_signature(token: str) -> str:
    return token.rpartition(".")[0] + "."


REFUSALS: list[tuple[str, Make, dict[str, str], int, str]] = [
    ("no token", lambda s: s.job(sign=False), {}, 401, "job_token_invalid"),
    ("an empty object", lambda _: {}, {}, 401, "job_token_invalid"),
    ("a token that is a number", lambda s: token_of(s, lambda _: 5), {}, 401, "job_token_invalid"),
    ("a token that is none", lambda s: token_of(s, lambda _: "a.b.c"), {}, 401, "job_token_invalid"),
    ("no signature", lambda s: token_of(s, without_signature), {}, 401, "job_token_invalid"),
    ("an expired token", lambda s: s.job(lifetime=-120), {}, 401, "job_token_expired"),
    ("another input", lambda s: tampered(s, payload={"amount": 10**6}), {}, 403, "job_payload_mismatch"),
    ("another run", lambda s: tampered(s, run_id="r2"), {}, 403, "job_payload_mismatch"),
    ("another address", lambda s: tampered(s, callback_url="https://evil.example"), {}, 403, "job_payload_mismatch"),
    ("one member more", lambda s: tampered(s, debug=True), {}, 403, "job_payload_mismatch"),
    ("a list", lambda _: [], {}, 422, "invalid_execution_request"),
    ("no engine", lambda s: s.job(engine=None), {}, 422, "invalid_execution_request"),
    ("a spec that is a text", lambda s: s.job(spec="x"), {}, 422, "invalid_execution_request"),
    ("a timeout of nothing", lambda s: s.job(timeout_ms=0), {}, 422, "invalid_execution_request"),
    ("a job of the queue", lambda s: s.job(execution_mode="async"), {}, 422, "invalid_execution_request"),
    ("a lease token too long", lambda s: s.job(lease_token="x" * 129), {}, 422, "invalid_execution_request"),
    ("no JSON", lambda _: b"{", {}, 400, "invalid_json"),
    ("not UTF-8", lambda _: b'{"a":"\xff"}', {}, 400, "invalid_json"),
    ("a name twice", lambda _: b'{"a":1,"a":2}', {}, 400, "invalid_json"),
    ("NaN", lambda _: b'{"a":NaN}', {}, 400, "invalid_json"),
    ("too deep", lambda _: b"[" * 1000 + b"]" * 1000, {}, 400, "invalid_json"),
    ("no body", lambda _: b"", {}, 400, "invalid_json"),
    ("another type", lambda s: s.job(), {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
    ("an encoding", lambda s: s.job(), {"Content-Encoding": "gzip"}, 415, "unsupported_content_encoding"),
    ("too large", lambda _: b" " * (JOB_BODY_BYTES + 1), {}, 413, "body_too_large"),
]


@pytest.mark.parametrize("path", ROUTES)
async def test_what_is_wrong_before_the_first_byte_keeps_its_status(served: ServedExecutor, path: str) -> None:
    """BR-69."""
    wrong = []
    for name, make, headers, status, code in REFUSALS:
        answer = await served.call(path, make(served), headers)
        if (answer[0], answer[1], answer[2].get("code")) != (status, PROBLEM, code):
            wrong.append((name, answer))
    assert wrong == []
    assert served.apis == {}
    assert served.engines["counts"].contexts == [], "nothing was run"


async def test_every_fault_of_a_shape_is_named_with_its_place(served: ServedExecutor) -> None:
    _, _, problem = await served.call("/execute", served.job(engine=None, spec=[], timeout_ms=True, max_attempts=1.5))
    assert [fault["pointer"] for fault in problem["errors"]] == ["/engine", "/spec", "/timeout_ms", "/max_attempts"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/execute", 405), ("PUT", "/execute/sse", 405), ("POST", "/execute/", 404), ("POST", "/", 404),
     ("GET", "/health", 200), ("GET", "/health/live", 200), ("GET", "/health/ready", 200),
     ("HEAD", "/health/live", 200), ("GET", "/metrics", 200)],
)  # fmt: skip
async def test_other_routes_answer_as_they_are_documented(
    served: ServedExecutor, method: str, path: str, status: int
) -> None:
    async with served.session.request(method, path, allow_redirects=False) as response:
        assert response.status == status
        if status >= 400:
            assert response.content_type == PROBLEM


async def test_scanners_make_no_series_of_their_own(served: ServedExecutor) -> None:
    """BR-114, BR-115."""
    for number in range(20):
        for path in (f"/a{number}", f"/execute/{number}", "/execute/"):
            async with served.session.request("PROPFIND", path) as response:
                assert response.status in {404, 405}
    text = served.metrics.text().decode()
    assert text.count("http_requests_total{") == 1
    assert 'method="other",route="unmatched",status="404"' in text


async def user_error(_context: RunContext) -> RunResult:
    return failed("no such order", status_code=404)


async def crash(_context: RunContext) -> RunResult:
    raise ZeroDivisionError


STARTED, TICKS = ["run_initiated", "log"], ["tick", "tick", "tick"]
COMPLETED = {"status": "completed", "state": "succeeded", "result": 3}
ORDERS: list[tuple[str, Script | None, list[str], dict[str, Any]]] = [
    ("counts", None, [*STARTED, *TICKS, "log", "completed"], COMPLETED),
    ("nowhere", None, ["run_initiated", "error", "completed"], {"status": "failed", "status_code": 503}),
    ("user", user_error, [*STARTED, "error", "completed"], {"status": "failed", "status_code": 404}),
    ("crash", crash, [*STARTED, "error", "completed"], {"status": "failed", "state": "failed"}),
]


@pytest.mark.parametrize(("engine", "script", "types", "last"), ORDERS, ids=[row[0] for row in ORDERS])
async def test_both_streams_and_the_plain_answer_tell_the_same_end(
    served: ServedExecutor, engine: str, script: Script | None, types: list[str], last: dict[str, Any]
) -> None:
    """BR-67."""
    if script is not None:
        served.engine(engine, script)
    for number, path in enumerate(STREAMS):
        events = await served.events(path, served.job(f"s{number}", engine))
        assert [event["event_type"] for event in events] == types
        assert all(set(event) == {"event_id", "event_type", "payload", "timestamp"} for event in events)
        assert events[0]["payload"] == {"run_id": f"s{number}"}
        assert {name: events[-1]["payload"].get(name) for name in last} == last
    status, kind, answer = await served.call("/execute", served.job("plain", engine, execution_mode="sync"))
    assert (status, kind) == (200, "application/json"), "a run that failed is an answer, not an error"
    assert {name: answer.get(name) for name in last} == last
    assert {"run_id", "duration_ms"} <= set(answer)


async def test_the_end_is_in_the_api_before_it_is_in_the_answer(served: ServedExecutor) -> None:
    """BR-74."""
    await served.call("/execute", served.job(payload={"ticks": 250}))
    api = served.apis["r1"]
    assert sum(api.batches) == 252
    assert max(api.batches) == 100
    assert api.end.status is ProgressStatus.COMPLETED
    assert {report.lease_token for report in api.reports} == {"lease"}


async def test_a_job_is_not_run_twice_at_a_time(served: ServedExecutor) -> None:
    served.engine("waits", until_cancelled)
    async with served.open("/execute/stream", served.job(engine="waits")) as response:
        await response.content.readline()
        for path in ROUTES:
            status, _, problem = await served.call(path, served.job(engine="waits"))
            assert (status, problem["code"]) == (409, "run_already_held")
    assert len(served.engines["waits"].contexts) == 1


async def test_a_stream_is_resumed_after_the_last_event_that_was_seen(served: ServedExecutor) -> None:
    job = served.job()
    whole = await served.events("/execute/sse", job)
    for number, event in enumerate(whole):
        assert await served.events("/execute/sse", job, {"Last-Event-ID": event["event_id"]}) == whole[number + 1 :]
    assert len(served.engines["counts"].contexts) == 1, "a resumed run is not run again"
    for identity, body, expected in [
        ("x-1", job, (410, "stream_position_gone")),
        (whole[0]["event_id"].split("-")[0] + "-99", job, (410, "stream_position_gone")),
        (whole[0]["event_id"], served.job("other"), (404, "run_not_held")),
    ]:
        status, kind, problem = await served.call("/execute/sse", body, {"Last-Event-ID": identity})
        assert (status, kind, problem["code"]) == (expected[0], PROBLEM, expected[1])


async def test_a_second_reader_takes_the_place_of_the_first(served: ServedExecutor) -> None:
    proceed = asyncio.Event()

    async def waits(context: RunContext) -> RunResult:
        await proceed.wait()
        await context.emit("tick", 1)
        return RunResult(ProgressStatus.COMPLETED)

    served.engine("waits", waits)
    job = served.job(engine="waits")
    async with served.open("/execute/sse", job) as first:
        head = await first.content.readuntil(b"\n\n")
        identity = head.split(b"\n")[0].removeprefix(b"id: ").decode()
        second = asyncio.create_task(served.events("/execute/sse", job, {"Last-Event-ID": identity}))
        with pytest.raises(aiohttp.ClientError):
            await first.content.read()
        proceed.set()
        assert [event["event_type"] for event in await second] == ["log", "tick", "log", "completed"]


@pytest.fixture
def _many_sockets() -> Iterator[None]:
    """Both ends of a thousand streams are in this process; some systems start a process with room for fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_sockets")
async def test_a_thousand_streams_at_once_are_each_in_order(served: ServedExecutor) -> None:
    async def one(number: int) -> None:
        path = STREAMS[number % 2]
        events = await served.events(path, served.job(f"r{number}", "waits"))
        assert [event["payload"]["n"] for event in events if event["event_type"] == "tick"] == list(range(5))
        assert [event["event_type"] for event in events if event["event_type"] == "completed"] == ["completed"]
        assert events[-1]["payload"]["run_id"] == f"r{number}"

    every_one_runs = asyncio.Event()

    async def waits(context: RunContext) -> RunResult:
        if len(served.engines["waits"].contexts) == 1000:
            every_one_runs.set()
        await every_one_runs.wait()
        for number in range(5):
            await context.emit("tick", {"n": number})
        return RunResult(ProgressStatus.COMPLETED)

    served.engine("waits", waits)
    await asyncio.gather(*(one(number) for number in range(1000)))
    await served.idle()
    assert served.count("streams_total", end="completed") == 1000


async def test_large_events_arrive_whole(served: ServedExecutor) -> None:
    for number, path in enumerate(STREAMS):
        events = await served.events(path, served.job(f"r{number}", payload={"ticks": 20, "size": 60_000}))
        assert [len(event["payload"]["text"]) for event in events if event["event_type"] == "tick"] == [60_000] * 20


async def test_a_drain_refuses_new_calls_and_ends_those_that_do_not_end(served: ServedExecutor) -> None:
    """BR-69, BR-107."""
    served.engine("waits", until_cancelled)
    refused = served.job("late")

    async def stream(path: str, run_id: str) -> Any:
        if path == "/execute":
            return await served.call(path, served.job(run_id, "waits"))
        return await served.events(path, served.job(run_id, "waits"))

    tasks = [asyncio.create_task(stream(path, path.rpartition("/")[2])) for path in ROUTES]
    await served.begun("waits", 3)
    served.lifecycle.drain()
    for path, status in (("/health", 200), ("/health/live", 200), ("/health/ready", 503)):
        async with served.session.get(path) as response:
            assert response.status == status, "only readiness goes, until the process does"
    for path in ROUTES:
        status, kind, problem = await served.call(path, refused)
        assert (status, kind, problem["code"]) == (503, PROBLEM, "draining")
    plain, *streams = await asyncio.gather(*tasks)
    ends = [plain[2], *(events[-1]["payload"] for events in streams)]
    assert [(end["status"], end["error"]) for end in ends] == [("failed", "executor draining")] * 3
    assert all(events[-1]["event_type"] == "completed" for events in streams)


async def test_an_answer_holds_no_secret(served: ServedExecutor) -> None:
    job = served.job()
    for change in ({"payload": 1}, {"executor_jwt": job["executor_jwt"][:-3]}):
        _, _, problem = await served.call("/execute", {**job, **change})
        assert job["executor_jwt"][:40] not in json.dumps(problem)


async def test_a_stream_is_counted_once_whether_it_is_read_to_its_end_or_left(served: ServedExecutor) -> None:
    """BR-117: with the status that was sent, and no duration, which would be that of the run."""
    left = asyncio.Event()

    async def waits(_context: RunContext) -> RunResult:
        await left.wait()
        return RunResult(ProgressStatus.COMPLETED)

    served.engine("waits", waits)
    await served.events("/execute/sse", served.job("whole"))
    async with served.open("/execute/stream", served.job("left", "waits")) as response:
        await response.content.readline()
        response.close()
    assert (await served.call("/execute", served.job("crashed", "nowhere")))[0] == 200
    left.set()
    await served.idle()

    for route in ROUTES:
        assert served.count("http_requests_total", route=route, method="POST", status="200") == 1
    names = {family.name for family in served.metrics.registry.collect()}
    assert [name for name in names if "duration" in name or "latency" in name] == []
