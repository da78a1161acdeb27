"""Identity over real sockets: the key set and the metadata servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.names import GOOGLE_KEYS_URL, METADATA_URL, SCOPE_DATASTORE, SCOPE_PUBSUB
from sandbox.identity.faults import Fault, Step
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts, LoopbackConnector
from tests.support.worlds import API, NUMBER, PROJECT, PUSH, REGION, empty_world

FLAVOR = {"Metadata-Flavor": "Google"}
ACCOUNT = f"{METADATA_URL}/instance/service-accounts"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def identity(tmp_path: Path, clock: ManualClock) -> AsyncIterator[IdentityService]:
    service = IdentityService(empty_world(tmp_path), clock)
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def http(identity: IdentityService) -> AsyncIterator[aiohttp.ClientSession]:
    """What a process that runs as the API's account sees."""
    hosts = Hosts()
    hosts.add("www.googleapis.com", identity.keys_address)
    hosts.add("metadata.google.internal", await identity.metadata_address(API))
    async with aiohttp.ClientSession(connector=LoopbackConnector(hosts)) as session:
        yield session


async def test_the_key_set_is_served_at_googles_address(identity: IdentityService, http: aiohttp.ClientSession) -> None:
    async with http.get(GOOGLE_KEYS_URL) as response:
        body = await response.json()
    assert [key["kty"] for key in body["keys"]] == ["RSA"]
    assert "max-age" in response.headers["Cache-Control"]


async def test_a_down_key_service_answers_with_the_ordered_status_and_then_recovers(
    identity: IdentityService, http: aiohttp.ClientSession
) -> None:
    identity.faults.order(Fault(step=Step.KEYS, status=503), times=2)
    statuses = []
    for _ in range(3):
        async with http.get(GOOGLE_KEYS_URL) as response:
            statuses.append(response.status)
    assert statuses == [503, 503, 200]


async def test_a_slow_key_service_answers_when_the_clock_gets_there(
    identity: IdentityService, http: aiohttp.ClientSession, clock: ManualClock
) -> None:
    identity.faults.order(Fault(step=Step.KEYS, seconds=10))
    response = await _while_moving(clock, http, GOOGLE_KEYS_URL)
    assert response == 200
    assert clock.monotonic() >= 10


async def _while_moving(clock: ManualClock, http: aiohttp.ClientSession, url: str) -> int:
    """One GET while the clock moves on by a second at a time."""

    async def get() -> int:
        async with http.get(url) as response:
            return response.status

    call = asyncio.create_task(get())
    while not call.done():
        await clock.advance(1)
    return await call


async def test_the_metadata_server_gives_an_access_token_that_authenticates(
    identity: IdentityService, http: aiohttp.ClientSession, clock: ManualClock
) -> None:
    await clock.advance(0.5)
    async with http.get(f"{ACCOUNT}/default/token?scopes={SCOPE_PUBSUB}", headers=FLAVOR) as response:
        body = await response.json()
    assert response.headers["Metadata-Flavor"] == "Google"
    assert body["token_type"] == "Bearer"
    assert 3000 < body["expires_in"] <= 3600
    token = body["access_token"]
    assert identity.authenticate(token) == API
    assert identity.authenticate(token, SCOPE_PUBSUB) == API
    assert identity.authenticate(token, SCOPE_DATASTORE) is None, "the token was not asked for that"
    await clock.advance(3600)
    assert identity.authenticate(token) is None


async def test_an_access_token_without_a_named_scope_is_for_everything(
    identity: IdentityService, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{ACCOUNT}/{API}/token", headers=FLAVOR) as response:
        body = await response.json()
    assert identity.authenticate(body["access_token"], SCOPE_DATASTORE) == API


async def test_the_metadata_server_gives_an_id_token_for_one_audience(
    identity: IdentityService, http: aiohttp.ClientSession, clock: ManualClock
) -> None:
    async with http.get(f"{ACCOUNT}/default/identity?audience=https://e.run.app&format=full", headers=FLAVOR) as got:
        token = await got.text()
    assert identity.verify_id_token(token, {"https://e.run.app"}) == API
    assert identity.verify_id_token(token, {"https://other.run.app"}) is None
    await clock.advance(3600)
    assert identity.verify_id_token(token, {"https://e.run.app"}) is None, "an hour later it is over"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("project/project-id", PROJECT),
        ("project/numeric-project-id", NUMBER),
        ("instance/region", f"projects/{NUMBER}/regions/{REGION}"),
        ("instance/service-accounts/default/email", API),
    ],
)
async def test_the_metadata_server_tells_where_the_process_runs(
    http: aiohttp.ClientSession, path: str, text: str
) -> None:
    async with http.get(f"{METADATA_URL}/{path}", headers=FLAVOR) as response:
        assert (response.status, await response.text()) == (200, text)


async def test_the_metadata_server_describes_its_account_as_googles_library_reads_it(
    http: aiohttp.ClientSession,
) -> None:
    async with http.get(f"{ACCOUNT}/default/?recursive=true", headers=FLAVOR) as response:
        assert (await response.json())["email"] == API


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("default/token", {}, 403),
        ("default/token", {"Metadata-Flavor": "google"}, 403),
        ("default/token", {**FLAVOR, "X-Forwarded-For": "10.0.0.1"}, 403),
        (f"{PUSH}/token", FLAVOR, 404),
        ("default/identity", FLAVOR, 400),
    ],
)
async def test_the_metadata_server_refuses_what_google_refuses(
    http: aiohttp.ClientSession, path: str, headers: dict[str, str], status: int
) -> None:
    async with http.get(f"{ACCOUNT}/{path}", headers=headers) as response:
        assert response.status == status


async def test_a_metadata_server_can_be_down(identity: IdentityService, http: aiohttp.ClientSession) -> None:
    identity.faults.order(Fault(step=Step.METADATA, status=500))
    async with http.get(f"{ACCOUNT}/default/token", headers=FLAVOR) as response:
        assert response.status == 500


async def test_every_account_has_one_metadata_server_of_its_own(identity: IdentityService) -> None:
    first, again, other = await asyncio.gather(
        identity.metadata_address(API), identity.metadata_address(API), identity.metadata_address(PUSH)
    )
    assert first == again
    assert first != other
    assert len(first.path) <= 100


async def test_a_stopped_service_leaves_no_socket_behind(identity: IdentityService) -> None:
    address = await identity.metadata_address(API)
    await identity.stop()
    assert not Path(address.path).parent.exists()


async def test_a_service_that_is_not_started_says_so(tmp_path: Path) -> None:
    service = IdentityService(empty_world(tmp_path), ManualClock())
    with pytest.raises(RuntimeError, match="not started"):
        service.id_token(API, "a")
    with pytest.raises(RuntimeError, match="not started"):
        await service.metadata_address(API)
    await service.stop()
