"""Ordered faults at the requests of an instance, with a real client and server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from runtime.adapters.clock import SystemClock
from sandbox.cloud_run.faults import Action, Fault, Point
from sandbox.cloud_run.ordered_faults import FaultyHttp, OrderedFaults


class Recorder:
    def __init__(self) -> None:
        self.paths: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        return web.Response(text="ok")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def server(recorder: Recorder) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", recorder.answer)
    made = TestServer(app)
    await made.start_server()
    yield made
    await made.close()


def session(fault: Fault) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(middlewares=[FaultyHttp(OrderedFaults([fault], SystemClock()))], trust_env=False)


@pytest.mark.parametrize(("point", "arrived"), [(Point.HTTP_BEFORE, []), (Point.HTTP_AFTER, ["/progress"])])
async def test_a_failed_request_has_arrived_or_not_as_ordered(
    server: TestServer, recorder: Recorder, point: Point, arrived: list[str]
) -> None:
    async with session(Fault(point=point, action=Action.ERROR, match="/progress")) as http:
        with pytest.raises(aiohttp.ClientConnectionError, match="ordered fault"):
            await http.post(server.make_url("/progress"))
    assert recorder.paths == arrived


async def test_only_the_nth_request_that_matches_fails(server: TestServer, recorder: Recorder) -> None:
    fault = Fault(point=Point.HTTP_BEFORE, action=Action.ERROR, match="POST 127.0.0.1/events", nth=2)
    async with session(fault) as http:
        for method, path in (("POST", "/events"), ("GET", "/events"), ("POST", "/other")):
            async with http.request(method, server.make_url(path)) as response:
                assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await http.post(server.make_url("/events"))
        async with http.post(server.make_url("/events")) as response:
            assert response.status == 200
    assert recorder.paths == ["/events", "/events", "/other", "/events"]
