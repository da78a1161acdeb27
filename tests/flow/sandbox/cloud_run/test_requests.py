"""Requests through the front: what arrives, what comes back, and when it is cut."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from sandbox.cloud_run.front import Options
from tests.support.cloud_run import Front, front, host, new_world, service
from tests.support.waiting import until


@pytest.fixture(scope="module")
def public() -> Options:
    return Options(public="api")


@pytest.fixture
async def it(public: Options) -> AsyncIterator[Front]:
    world = new_world()
    world.put(service("api"))
    world.put(service("worker", public=False, invokerIamDisabled=True))
    async with front(world, options=public, check=False) as made:
        yield made


async def test_people_reach_the_public_service_by_a_loopback_address_and_it_sees_its_own_host(it: Front) -> None:
    seen = await it.json(None, "/v1/runs")
    assert ["Host", host("api")] in seen["headers"]


async def test_a_wrong_host_of_the_platform_is_not_answered_by_the_public_service(it: Front) -> None:
    assert await it.status("wroker") == 404


async def test_an_internal_service_answers_callers_inside_and_does_not_exist_for_others(it: Front) -> None:
    assert await it.status("worker") == 404
    assert await it.status("worker", internal=True) == 200


@pytest.mark.parametrize("path", ["/a//b", "/%2e%2e/x", "//", "/a?b=%20c&b=%2F", "/%C3%A9"])
async def test_a_path_reaches_the_service_as_it_was_sent(it: Front, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", it.cloud_run.external.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host('api')}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["path"] == path


async def test_headers_of_one_connection_stay_on_it_and_repeated_ones_stay_repeated(it: Front) -> None:
    headers = {"Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers", "X-Forwarded-For": "10.0.0.1"}
    async with it.request("api", headers=headers) as response:
        seen = {name.lower(): value for name, value in (await response.json())["headers"]}
        assert response.headers.getall("X-Twice") == ["1", "2"]
    assert not {"connection", "x-hop", "te"} & set(seen)
    assert seen["x-forwarded-for"] == "10.0.0.1, 127.0.0.1"
    assert seen["x-forwarded-proto"] == "https"


async def test_the_service_status_and_body_come_back(it: Front) -> None:
    async with it.request("api", "/?status=418", method="PUT", data=b"tea") as response:
        assert response.status == 418
        assert (await response.json(content_type=None))["body"] == "tea"


async def test_a_head_request_has_the_length_and_no_body(it: Front) -> None:
    async with it.request("api", "/", method="HEAD") as response:
        assert int(response.headers["Content-Length"]) > 0
        assert await response.read() == b""
    assert await it.status("api") == 200, "the connection is still in step"


async def test_large_bodies_pass_both_ways_unchanged(it: Front) -> None:
    body = bytes(range(128)) * 100_000

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1_000_000):
            yield body[start : start + 1_000_000]

    for data in (io.BytesIO(body), pieces()):
        async with it.request("api", method="POST", data=data) as response:
            assert (await response.json())["body"].encode("latin-1") == body


async def test_an_answer_that_does_not_wait_for_the_body_reaches_the_caller(it: Front) -> None:
    body = io.BytesIO(bytes(20_000_000))
    async with it.request("api", "/refuse", method="POST", data=body) as response:
        assert response.status == 413
    assert await it.status("api") == 200


async def test_both_directions_stream_at_the_same_time(it: Front) -> None:
    next_piece: asyncio.Queue[bytes] = asyncio.Queue()

    async def pieces() -> AsyncIterator[bytes]:
        while piece := await next_piece.get():
            yield piece

    next_piece.put_nowait(b"abc")
    async with it.request("api", "/upload", method="POST", data=pieces()) as response:
        assert await response.content.readline() == b"3\n", "the answer waited for the end of the body"
        next_piece.put_nowait(b"defgh")
        assert await response.content.readline() == b"5\n"
        next_piece.put_nowait(b"")
        assert await response.content.read() == b""


async def test_a_caller_that_waits_to_be_told_to_go_on_is_told(it: Front) -> None:
    async with it.request("api", method="POST", data=b"x" * 10, headers={"Expect": "100-continue"}) as response:
        assert (await response.json())["body"] == "x" * 10


async def test_a_caller_that_goes_away_is_gone_for_the_service_too(it: Front) -> None:
    """BR-63: a disconnect is seen through the front."""
    call = asyncio.create_task(it.status("api", "/sleep/600"))
    await until(lambda: [one.in_flight for one in it.cloud_run.instances("api")] == [1])
    call.cancel()
    await asyncio.wait({call})
    while (await it.json("api", "/about"))["disconnects"] == 0:  # noqa: ASYNC110 - it happens in another process
        await asyncio.sleep(0.01)
    await until(lambda: [one.in_flight for one in it.cloud_run.instances("api")] == [0])


async def test_a_request_over_its_time_is_answered_504_and_the_process_lives_on() -> None:
    world = new_world()
    world.put(service("api", template={"timeout": "0.3s"}))
    async with front(world) as it:
        pid = it.pid("api")
        async with it.request("api", "/sleep/600") as response:
            assert (response.status, await response.text()) == (504, "api did not answer within 0.3 s\n")
        assert (await it.json("api"))["pid"] == pid


async def test_a_stream_over_its_time_is_cut_so_that_it_does_not_look_complete() -> None:
    world = new_world()
    world.put(service("api", template={"timeout": "0.3s"}))
    async with front(world) as it:
        async with it.request("api", "/stream/1") as response:
            assert await response.content.readline() == b"0\n"
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()
        assert await it.status("api") == 200


async def test_a_crash_is_503_for_the_requests_in_flight_and_the_next_one_finds_a_new_instance() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        pid = it.pid("api")
        waiting = asyncio.create_task(it.status("api", "/sleep/600"))
        await until(lambda: it.cloud_run.instances("api")[0].in_flight == 1)
        assert await it.status("api", "/crash") == 503
        assert await waiting == 503
        assert (await it.json("api"))["pid"] != pid


async def test_a_crash_in_the_middle_of_a_response_does_not_look_like_its_end() -> None:
    """BR-67: what broke off is not a clean end."""
    world = new_world()
    world.put(service("api"))
    async with front(world) as it, it.request("api", "/cut") as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_an_ordered_kill_ends_the_instances_now() -> None:
    world = new_world()
    world.put(service("api"))
    async with front(world) as it:
        waiting = asyncio.create_task(it.status("api", "/sleep/600"))
        await until(lambda: it.cloud_run.instances("api")[0].in_flight == 1)
        it.cloud_run.kill("api")
        assert await waiting == 503
        await until(lambda: it.cloud_run.instances("api") == [])


async def test_concurrency_decides_how_many_instances_work_and_the_maximum_how_many_requests_wait() -> None:
    world = new_world()
    scaling = {"maxInstanceRequestConcurrency": 2, "scaling": {"maxInstanceCount": 2}}
    world.put(service("api", template=scaling))
    async with front(world) as it:
        calls = [asyncio.create_task(it.json("api", "/sleep/0.4")) for _ in range(6)]
        answers = await asyncio.gather(*calls)
        assert len({answer["pid"] for answer in answers}) == 2
        assert len(it.cloud_run.instances("api")) == 2


async def test_addresses_in_absolute_form_are_served(it: Front) -> None:
    url = URL(f"http://127.0.0.1:{it.cloud_run.external.port}")
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET http://{host('api')}/x?y HTTP/1.1\r\nHost: {host('api')}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["path"] == "/x?y"
