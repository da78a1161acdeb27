"""A run's events over a socket: polls and streams, readers that come back, leave, or take nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.support.api_bench import event
from tests.support.served_api import KEY, ServedApi
from tests.support.waiting import until

STREAM = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}


@pytest.fixture
async def running(served: ServedApi) -> ServedApi:
    await served.submit("r1")
    await served.progress("a", "running")
    return served


def messages(raw: bytes) -> list[dict[str, str]]:
    """The messages of a stream as a browser reads them; comments and `retry` are left out."""
    found = []
    for block in raw.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append(fields)
    return found


async def stream(api: ServedApi, path: str = "/v1/runs/r1/events", **headers: str) -> bytes:
    async with api.session.get(path, headers={**STREAM, **headers}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        return await response.read()


async def test_a_poll_gives_events_in_pages(running: ServedApi) -> None:
    await running.events("a", *(event("r1", 1, number) for number in range(3)))
    _, page, _ = await running.call("GET", "/v1/runs/r1/events?after=0")
    assert [item["sequence"] for item in page["events"]] == [1, 2]
    assert page["events"][0] == event("r1", 1, 1)
    assert {name: page[name] for name in page if name != "events"} == {
        "run_id": "r1", "state": "running", "next_after": 2, "complete": False,
    }  # fmt: skip


async def test_a_poll_waits_for_the_first_event(running: ServedApi) -> None:
    polling = asyncio.create_task(running.call("GET", "/v1/runs/r1/events?wait=30"))
    await until(lambda: running.waits)
    await running.events("a", event("r1", 1, 0))
    _, page, _ = await polling
    assert [item["sequence"] for item in page["events"]] == [0]
    assert running.waits == 0


async def test_a_poll_ends_empty_with_its_wait(running: ServedApi) -> None:
    polling = asyncio.create_task(running.call("GET", "/v1/runs/r1/events?wait=30"))
    await until(lambda: running.waits)
    await running.clock.advance(30)
    status, page, _ = await polling
    assert (status, page["events"], page["complete"]) == (200, [], False)


async def test_a_stream_gives_every_event_and_then_the_end(running: ServedApi) -> None:
    streaming = asyncio.create_task(stream(running))
    await until(lambda: running.waits)
    await running.events("a", event("r1", 1, 0), event("r1", 1, 1))
    await running.clock.advance(1)
    await running.events("a", event("r1", 1, 2))
    await running.progress("a", "completed")
    found = messages(await streaming)
    assert [(item.get("id"), item["event"]) for item in found] == [
        ("0", "progress"), ("1", "progress"), ("2", "progress"), (None, "run-ended"),
    ]  # fmt: skip
    assert json.loads(found[0]["data"]) == event("r1", 1, 0)
    assert json.loads(found[-1]["data"]) == {"run_id": "r1", "state": "succeeded", "status_code": 200}


async def test_a_reader_that_comes_back_goes_on_after_what_it_has(running: ServedApi) -> None:
    await running.events("a", *(event("r1", 1, number) for number in range(4)))
    await running.progress("a", "completed")
    found = messages(await stream(running, **{"Last-Event-ID": "1"}))
    assert [item.get("id") for item in found] == ["2", "3", None]
    found = messages(await stream(running, "/v1/runs/r1/events?after=2"))
    assert [item.get("id") for item in found] == ["3", None]


async def test_a_reader_that_comes_back_for_nothing_is_sent_away(running: ServedApi) -> None:
    await running.events("a", event("r1", 1, 0))
    await running.progress("a", "completed")
    async with running.session.get("/v1/runs/r1/events", headers={**STREAM, "Last-Event-ID": "0"}) as response:
        assert response.status == 204


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "٣", "9" * 30])
async def test_a_last_event_id_that_is_none_is_a_400(running: ServedApi, value: str) -> None:
    async with running.session.get("/v1/runs/r1/events", headers={**STREAM, "Last-Event-ID": value}) as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["code"]) == (400, "invalid_last_event_id")


async def test_what_is_wrong_before_the_first_byte_keeps_its_status(served: ServedApi) -> None:
    async with served.session.get("/v1/runs/nobody/events", headers=STREAM) as response:
        assert response.status == 404
        assert response.headers["Content-Type"] == "application/problem+json"


async def test_br_65_text_of_an_event_cannot_forge_another(running: ServedApi) -> None:
    texts = ["a\nevent: done\ndata: {}\n\n", "x\ry", "\u2028id: 7\x00"]
    await running.events("a", *(event("r1", 1, number, text) for number, text in enumerate(texts)))
    await running.progress("a", "completed")
    found = messages(await stream(running))
    assert [json.loads(item["data"]).get("payload") for item in found[:-1]] == texts
    assert len(found) == 4


async def test_br_71_a_quiet_stream_is_kept_alive_and_falls_silent_after_its_end(running: ServedApi) -> None:
    streaming = asyncio.create_task(stream(running))
    await until(lambda: running.waits)
    for _ in range(40):
        await running.clock.advance(1)
        await asyncio.sleep(0.002)  # lets the socket carry what the clock released
    await running.progress("a", "completed")
    raw = await streaming
    assert raw.count(b": keep-alive\n\n") == 2
    assert raw.endswith(b"\n\n")
    assert b": keep-alive" not in raw[raw.index(b"run-ended") :]


async def test_br_63_a_reader_that_left_is_noticed_by_the_next_keep_alive(running: ServedApi) -> None:
    response = await running.session.get("/v1/runs/r1/events", headers=STREAM)
    await until(lambda: running.waits)
    response.close()
    for _ in range(60):
        await running.clock.advance(1)
        await asyncio.sleep(0.002)
        if not running.waits:
            break
    assert running.waits == 0
    assert b'status="500"' not in running.metrics.text()


async def test_br_72_a_reader_that_takes_nothing_is_cut_off(running: ServedApi) -> None:
    await running.events("a", *(event("r1", 1, number, "x" * 60_000) for number in range(8)))
    _reader, writer = await asyncio.open_connection("127.0.0.1", running.port, limit=1024)
    writer.write(f"GET /v1/runs/r1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
                 "Accept: text/event-stream\r\n\r\n".encode())  # fmt: skip
    await until(lambda: running.waits)
    for number in range(1, 40):
        code, answer = await running.events("a", *(event("r1", 1, 8 * number + i, "x" * 60_000) for i in range(8)))
        assert code == 200, answer
    for _ in range(200):
        await running.clock.advance(1)
        await asyncio.sleep(0.002)
        if not running.waits:
            break
    assert running.waits == 0, "a stalled stream holds nothing"
    writer.transport.abort()


async def test_a_drain_ends_streams_and_polls_so_that_readers_come_back_elsewhere(running: ServedApi) -> None:
    streaming = asyncio.create_task(stream(running))
    polling = asyncio.create_task(running.call("GET", "/v1/runs/r1/events?wait=30"))
    await until(lambda: running.waits == 2)
    running.lifecycle.drain()
    raw = await streaming
    assert b"run-ended" not in raw, "the run has not ended, the stream has"
    status, page, _ = await polling
    assert (status, page["complete"]) == (200, False)


async def test_a_stream_on_a_draining_process_is_a_503(running: ServedApi) -> None:
    running.lifecycle.drain()
    async with running.session.get("/v1/runs/r1/events", headers=STREAM) as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["code"]) == (503, "draining")


async def test_a_store_that_goes_away_breaks_the_stream_so_that_its_reader_can_tell(running: ServedApi) -> None:
    streaming = asyncio.create_task(stream(running))
    await until(lambda: running.waits)
    await running.memory.close()
    await running.clock.advance(1)
    with pytest.raises(aiohttp.ClientPayloadError):
        await streaming


def test_the_reader_of_these_tests_reads_like_a_browser() -> None:
    raw: Any = b"retry: 1\n\n: x\n\nid: 1\nevent: a\ndata: {}\n\n"
    assert messages(raw) == [{"id": "1", "event": "a", "data": "{}"}]
