"""Where a flow's requests may go, and how little of an answer they take: real names, sockets and servers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from runtime.execution.flow.address import is_public
from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.http import HttpRequest
from runtime.execution.flow.http_client import GuardedHttpClient
from runtime.execution.flow.limits import HEADER_CHARACTERS, HTTP_RESPONSE_BYTES, URL_CHARACTERS


class Names(AbstractResolver):
    """A name server that answers as a test says, each question with the next answer.

    Attributes:
        asked: the names that were looked up.
    """

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=_family(address), proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        """Holds nothing."""


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Target:
    """A server that a request must not reach, unless a test lets it."""

    def __init__(self) -> None:
        self.requests: list[web.BaseRequest] = []
        self.answer: Any = web.Response
        self.port = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        response = self.answer()
        assert isinstance(response, web.StreamResponse)
        return response


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    one = Target()
    runner = web.ServerRunner(web.Server(one.handle, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.port = runner.addresses[0][1]
    yield one
    await runner.cleanup()


def anywhere(_host: str, _port: int, _address: object) -> bool:
    return True


PRIVATE = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",  # noqa: S104 - nothing is bound
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fd20:ce::254",
    "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::1", "2001:db8::1",
    "fec0::1", "192.88.99.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_inside_is_never_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost",
     "LOCALHOST", "localhost.", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "[fe80::1%25lo]"],
)  # fmt: skip
async def test_this_machine_cannot_be_reached_however_it_is_written(target: Target, host: str) -> None:
    with pytest.raises(FlowFault):
        await GuardedHttpClient().send(HttpRequest("GET", f"http://{host}:{target.port}/"))
    assert target.requests == []


LISTED = ("api.example", "*.wide.example", "93.184.216.34")


@pytest.mark.parametrize(
    "host", ["api.example", "API.Example", "api.example.", "a.wide.example", "b.a.wide.example", "a.wide.example."]
)
async def test_a_host_of_the_list_is_looked_up_and_asked(target: Target, host: str) -> None:
    names = Names(["127.0.0.1"])
    client = GuardedHttpClient(anywhere, names, LISTED)
    assert (await client.send(HttpRequest("GET", f"http://{host}:{target.port}/"))).status == 200
    assert len(names.asked) == 1


@pytest.mark.parametrize(
    "host",
    ["other.example", "xapi.example", "api.example.evil.example", "a.api.example", "wide.example", "xwide.example",
     ".wide.example", "api.example..", "93.184.216.34.evil.example", "127.0.0.1", "8.8.8.8", "1572395042", "[::1]",
     "[::ffff:93.184.216.34]", "аpi.example"],
)  # fmt: skip
async def test_another_host_than_those_of_the_list_is_refused_before_any_look_up(target: Target, host: str) -> None:
    names = Names(["127.0.0.1"])
    with pytest.raises(FlowFault):
        await GuardedHttpClient(anywhere, names, LISTED).send(HttpRequest("GET", f"http://{host}:{target.port}/"))
    assert (names.asked, target.requests) == ([], [])


async def test_a_listed_host_that_leads_inside_is_refused_all_the_same(target: Target) -> None:
    with pytest.raises(FlowFault, match="not public"):
        await GuardedHttpClient(None, Names(["127.0.0.1"]), LISTED).send(
            HttpRequest("GET", f"http://api.example:{target.port}/")
        )
    assert target.requests == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/computeMetadata/v1/", "http://metadata.google.internal/"])
async def test_the_metadata_server_cannot_be_reached_by_address_or_by_name(url: str) -> None:
    client = GuardedHttpClient(lookup=Names(["169.254.169.254"]))
    with pytest.raises(FlowFault, match="not public"):
        await client.send(HttpRequest("GET", url))


@pytest.mark.parametrize("answers", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"]])
async def test_a_name_that_leads_inside_is_refused_even_beside_public_addresses(
    target: Target, answers: list[str]
) -> None:
    client = GuardedHttpClient(lookup=Names(answers))
    with pytest.raises(FlowFault, match=r"'inside\.example' leads to an address that is not public"):
        await client.send(HttpRequest("GET", f"http://inside.example:{target.port}/"))
    assert target.requests == []


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(target: Target) -> None:
    """A second look-up would give a second, other answer: there is none."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    seen: list[object] = []

    def allow(host: str, port: int, address: object) -> bool:
        seen.append((host, port, str(address)))
        return True

    answer = await GuardedHttpClient(allow, names).send(HttpRequest("GET", f"http://rebinds.example:{target.port}/x"))
    assert answer.status == 200
    assert names.asked == ["rebinds.example"]
    assert seen == [("rebinds.example", target.port, "127.0.0.1")]
    (request,) = target.requests
    assert request.headers["Host"] == f"rebinds.example:{target.port}"


async def test_a_redirect_is_an_answer_and_is_not_followed(target: Target) -> None:
    target.answer = lambda: web.Response(status=302, headers={"Location": "/elsewhere"})
    answer = await GuardedHttpClient(anywhere).send(HttpRequest("GET", f"http://127.0.0.1:{target.port}/first"))
    assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")
    assert [request.path for request in target.requests] == ["/first"]


async def test_a_request_goes_out_as_it_was_asked_for(target: Target) -> None:
    target.answer = lambda: web.json_response({"ok": 1}, headers={"X-Two": "a"})
    request = HttpRequest("POST", f"http://127.0.0.1:{target.port}/p?q=1", [("X-Mine", "ü")], b'{"a":1}')
    answer = await GuardedHttpClient(anywhere).send(request)
    assert (answer.status, answer.body, answer.headers["x-two"]) == (200, b'{"ok": 1}', "a")
    (sent,) = target.requests
    assert (sent.method, sent.path_qs, sent.headers["X-Mine"]) == ("POST", "/p?q=1", "ü")
    assert sent.headers["Content-Type"] == "application/json"
    assert "Cookie" not in sent.headers


async def test_proxies_of_the_environment_are_not_used(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    answer = await GuardedHttpClient(anywhere).send(HttpRequest("GET", f"http://127.0.0.1:{target.port}/"))
    assert answer.status == 200


@pytest.mark.parametrize("size", [HTTP_RESPONSE_BYTES, HTTP_RESPONSE_BYTES + 1])
async def test_an_answer_is_read_up_to_its_largest_size(target: Target, size: int) -> None:
    target.answer = lambda: web.Response(body=b"x" * size)
    request = HttpRequest("GET", f"http://127.0.0.1:{target.port}/")
    if size <= HTTP_RESPONSE_BYTES:
        assert len((await GuardedHttpClient(anywhere).send(request)).body) == size
    else:
        with pytest.raises(FlowFault, match="larger than"):
            await GuardedHttpClient(anywhere).send(request)


async def test_a_compressed_answer_is_refused_unopened(target: Target) -> None:
    target.answer = lambda: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    with pytest.raises(FlowFault, match="compressed"):
        await GuardedHttpClient(anywhere).send(HttpRequest("GET", f"http://127.0.0.1:{target.port}/"))


async def test_a_server_that_hangs_is_left_when_the_time_is_over() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(FlowFault, match=r"did not answer within 0\.05 s") as caught:
            await GuardedHttpClient(anywhere).send(HttpRequest("GET", url, seconds=0.05))
        assert caught.value.status_code == 504


async def test_a_server_that_is_not_there_is_a_fault_without_the_address(target: Target) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/path?token=secret"
        with pytest.raises(FlowFault) as caught:
            await GuardedHttpClient(anywhere).send(HttpRequest("GET", url))
        assert "secret" not in str(caught.value)


async def test_a_server_that_speaks_no_http_is_a_fault() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"\x00\xff nonsense\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(FlowFault, match="failed"):
            await GuardedHttpClient(anywhere).send(HttpRequest("GET", url))


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://a.example", "file:///etc/passwd", "gopher://a.example", "//a.example", "http://", "http:///x",
     "https://user:pw@a.example", "http://user@a.example", "http://a.example\\@b.example", "http://a b.example",
     "http://a.example/\r\nHost: b", "http://a.example:99999", "http://a.example:x", "http://[::1", "http://a.example:0",
     "http://a.example/" + "x" * URL_CHARACTERS, "javascript:alert(1)", "http://\u200ba.example"],
)  # fmt: skip
async def test_what_is_no_plain_web_address_is_refused_before_any_look_up(url: str) -> None:
    names = Names(["8.8.8.8"])
    with pytest.raises(FlowFault):
        await GuardedHttpClient(anywhere, names).send(HttpRequest("GET", url))
    assert names.asked == []


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "x" * (HEADER_CHARACTERS + 1)])
async def test_a_header_cannot_smuggle_another(target: Target, value: str) -> None:
    request = HttpRequest("GET", f"http://127.0.0.1:{target.port}/", [("X-Mine", value)])
    with pytest.raises(FlowFault, match="X-Mine"):
        await GuardedHttpClient(anywhere).send(request)
    assert target.requests == []
