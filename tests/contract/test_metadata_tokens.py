"""Tokens from a real metadata server that behaves well or badly, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest
from aiohttp import web

from runtime.adapters import metadata_server
from runtime.adapters.clock import ManualClock
from runtime.adapters.metadata_server import MetadataTokens
from runtime.contract.names import SCOPE_DATASTORE, SCOPE_PUBSUB
from runtime.ports.tokens import TokenUnavailable
from tests.support.local_host import answering

AUDIENCE = "https://api-1.europe-west1.run.app"
FLAVOR = {"Metadata-Flavor": "Google"}


def jwt(expires: datetime, **claims: Any) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'RS256'})}.{part({'exp': int(expires.timestamp()), **claims})}.c2lnbmF0dXJl"


class Server:
    """Gives token after token, each numbered; `answer` replaces what is given."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.lives = 3600.0
        self.requests: list[web.Request] = []
        self.answer: Callable[[], web.Response] | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        await self.gate.wait()
        if self.answer is not None:
            return self.answer()
        number = len(self.requests)
        if request.path.endswith("/identity"):
            ends = datetime.fromtimestamp(self.clock.now().timestamp() + self.lives, self.clock.now().tzinfo)
            return web.Response(text=jwt(ends, n=number), headers=FLAVOR)
        row = {"access_token": f"token-{number}", "expires_in": self.lives, "token_type": "Bearer"}
        return web.json_response(row, headers=FLAVOR)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Server:
    return Server(clock)


@pytest.fixture
async def tokens(server: Server, clock: ManualClock) -> AsyncIterator[MetadataTokens]:
    async with answering("metadata.google.internal", server.handle) as session:
        yield MetadataTokens(session, clock)


async def settled(clock: ManualClock, task: asyncio.Task[str]) -> str:
    """The end of a call that waits on the moved clock between its tries."""
    while not task.done():
        await asyncio.wait([task], timeout=0.01)
        await clock.advance(0.25)
    return task.result()


async def refused(clock: ManualClock, call: Any) -> str:
    with pytest.raises(TokenUnavailable) as caught:
        await settled(clock, asyncio.create_task(call))
    return str(caught.value)


async def test_an_access_token_is_asked_for_with_its_scope_and_the_flavour(
    tokens: MetadataTokens, server: Server
) -> None:
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    [request] = server.requests
    assert request.path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert dict(request.query) == {"scopes": SCOPE_PUBSUB}
    assert request.headers["Metadata-Flavor"] == "Google"


async def test_an_id_token_is_asked_for_with_its_audience_and_the_accounts_email(
    tokens: MetadataTokens, server: Server
) -> None:
    token = await tokens.id_token(AUDIENCE)
    [request] = server.requests
    assert request.path == "/computeMetadata/v1/instance/service-accounts/default/identity"
    assert dict(request.query) == {"audience": AUDIENCE, "format": "full"}
    assert await tokens.id_token(AUDIENCE) == token


async def test_scopes_audiences_and_kinds_have_tokens_of_their_own(tokens: MetadataTokens, server: Server) -> None:
    given = [
        await tokens.access_token(SCOPE_PUBSUB),
        await tokens.access_token(SCOPE_DATASTORE),
        await tokens.id_token(AUDIENCE),
        await tokens.id_token(SCOPE_PUBSUB),
    ]
    assert len(set(given)) == len(server.requests) == 4


@pytest.mark.parametrize("kind", ["access", "id"])
async def test_a_token_is_kept_until_225_seconds_before_its_end(
    tokens: MetadataTokens, clock: ManualClock, server: Server, kind: str
) -> None:
    async def token() -> str:
        return await (tokens.access_token(SCOPE_PUBSUB) if kind == "access" else tokens.id_token(AUDIENCE))

    first = await token()
    await clock.advance(3600 - 226)
    assert await token() == first
    await clock.advance(2)
    assert await token() != first
    assert len(server.requests) == 2


async def test_a_short_token_is_kept_for_sixty_seconds(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    server.lives = 200
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    await clock.advance(59)
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    await clock.advance(2)
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-2"


async def test_no_token_is_handed_out_with_less_than_thirty_seconds_to_live(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    server.lives = 70
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    await clock.advance(41)
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-2"
    server.lives = 29
    await clock.advance(41)
    assert "less than 30 s" in await refused(clock, tokens.access_token(SCOPE_PUBSUB))
    assert "less than 30 s" in await refused(clock, tokens.id_token(AUDIENCE))


async def test_callers_at_the_same_time_share_one_request(tokens: MetadataTokens, server: Server) -> None:
    server.gate.clear()
    callers = [asyncio.create_task(tokens.access_token(SCOPE_PUBSUB)) for _ in range(20)]
    while not server.requests:
        await asyncio.wait(callers, timeout=0.01)
    server.gate.set()
    assert set(await asyncio.gather(*callers)) == {"token-1"}
    assert len(server.requests) == 1


async def test_callers_at_the_same_time_share_one_failure(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    server.answer = lambda: web.Response(status=500, headers=FLAVOR)
    callers = [asyncio.create_task(tokens.access_token(SCOPE_PUBSUB)) for _ in range(5)]
    for caller in callers:
        with pytest.raises(TokenUnavailable):
            await settled(clock, caller)
    assert len(server.requests) == 3


async def test_a_caller_who_is_cancelled_while_fetching_takes_nobody_along(
    tokens: MetadataTokens, server: Server
) -> None:
    server.gate.clear()
    first, second = (asyncio.create_task(tokens.access_token(SCOPE_PUBSUB)) for _ in range(2))
    while not server.requests:
        await asyncio.wait([first, second], timeout=0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    server.gate.set()
    assert await second == "token-2"


async def test_a_caller_who_is_cancelled_while_waiting_stops_no_fetch(tokens: MetadataTokens, server: Server) -> None:
    server.gate.clear()
    first, second = (asyncio.create_task(tokens.access_token(SCOPE_PUBSUB)) for _ in range(2))
    while not server.requests:
        await asyncio.wait([first, second], timeout=0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    server.gate.set()
    assert await first == "token-1"


async def test_a_failing_server_is_asked_three_times_with_growing_waits(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    server.answer = lambda: web.Response(status=503, headers=FLAVOR)
    call = asyncio.create_task(tokens.access_token(SCOPE_PUBSUB))
    for number, wait in ((1, 0.25), (2, 0.5)):
        while len(server.requests) < number or not clock._due:
            await asyncio.wait([call], timeout=0.01)
        await clock.advance(wait - 0.01)
        assert len(server.requests) == number
        await clock.advance(0.01)
    with pytest.raises(TokenUnavailable, match="503"):
        await call
    assert len(server.requests) == 3


async def test_one_failure_is_made_good_by_the_next_try(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    def once() -> web.Response:
        server.answer = None
        return web.Response(status=500, headers=FLAVOR)

    server.answer = once
    assert await settled(clock, asyncio.create_task(tokens.access_token(SCOPE_PUBSUB))) == "token-2"


async def test_a_failed_renewal_hands_out_the_known_token_while_it_lives_and_asks_again_later(
    tokens: MetadataTokens, clock: ManualClock, server: Server
) -> None:
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    await clock.advance(3600 - 200)
    server.answer = lambda: web.Response(status=500, headers=FLAVOR)
    assert await settled(clock, asyncio.create_task(tokens.access_token(SCOPE_PUBSUB))) == "token-1"
    assert await tokens.access_token(SCOPE_PUBSUB) == "token-1"
    assert len(server.requests) == 4
    await clock.advance(61)
    assert await settled(clock, asyncio.create_task(tokens.access_token(SCOPE_PUBSUB))) == "token-1"
    assert len(server.requests) == 7
    await clock.advance(120)
    await refused(clock, tokens.access_token(SCOPE_PUBSUB))


def plain(text: str | bytes, headers: dict[str, str] = FLAVOR, status: int = 200) -> Callable[[], web.Response]:
    return lambda: web.Response(body=text, headers=headers, status=status)


BAD_ANSWERS: dict[str, Callable[[], web.Response]] = {
    "no flavour": plain('{"access_token": "secret-token", "expires_in": 3600}', {}),
    "other flavour": plain('{"access_token": "secret-token", "expires_in": 3600}', {"Metadata-Flavor": "Other"}),
    "redirect": plain("", {**FLAVOR, "Location": "http://elsewhere.example/"}, 302),
    "not found": plain("secret-token", status=404),
    "html": plain("<html>secret-token</html>"),
    "empty": plain(""),
    "list": plain("[]"),
    "no token": plain('{"expires_in": 3600}'),
    "no expiry": plain('{"access_token": "secret-token"}'),
    "expiry as text": plain('{"access_token": "secret-token", "expires_in": "3600"}'),
    "endless": plain('{"access_token": "secret-token", "expires_in": Infinity}'),
    "nan": plain('{"access_token": "secret-token", "expires_in": NaN}'),
    "line break": plain('{"access_token": "secret-token\\r\\nX: y", "expires_in": 3600}'),
    "too long": plain('{"access_token": "' + "secret-token" * 2000 + '", "expires_in": 3600}'),
    "not utf-8": plain(b"\xff\xfe secret-token"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_answer_that_is_not_the_metadata_servers_gives_no_token_and_is_not_repeated_in_the_error(
    tokens: MetadataTokens, clock: ManualClock, server: Server, name: str
) -> None:
    server.answer = BAD_ANSWERS[name]
    assert "secret-token" not in await refused(clock, tokens.access_token(SCOPE_PUBSUB))
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "text", ["secret-token", "a.b", "a.%.c", "a.eA.c", "a.e30.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c", ""]
)
async def test_an_id_token_that_cannot_be_read_is_not_handed_out(
    tokens: MetadataTokens, clock: ManualClock, server: Server, text: str
) -> None:
    server.answer = plain(text)
    assert "secret-token" not in await refused(clock, tokens.id_token(AUDIENCE))


async def test_tokens_are_in_no_repr(tokens: MetadataTokens) -> None:
    await tokens.access_token(SCOPE_PUBSUB)
    assert "token-1" not in repr(vars(tokens))


def test_the_limits_are_those_of_the_contract() -> None:
    assert (metadata_server.BODY_BYTES, metadata_server.TRIES) == (16 * 1024, 3)
    assert (metadata_server._TIMEOUT.total, metadata_server._TIMEOUT.sock_connect) == (5, 2)
