"""Google's keys: how often they are fetched, and what an outage does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.contract.errors import Decision
from runtime.contract.names import KEYS_NOT_REFRESHED
from runtime.identity.key_cache import KeyCache, KeySetUnavailable
from tests.support.google_tokens import Jwk, KeyServer, encoded, public_jwk


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server() -> KeyServer:
    return KeyServer()


@pytest.fixture
def keys(server: KeyServer, clock: ManualClock) -> KeyCache:
    return KeyCache(server, clock)


@asynccontextmanager
async def running(keys: KeyCache) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(keys.run())
        yield
        task.cancel()


async def unavailable(keys: KeyCache, kid: str) -> bool:
    try:
        await keys.key(kid)
    except KeySetUnavailable as error:
        return error.decision is Decision.RETRY
    return False


async def test_keys_are_loaded_at_the_start_and_known_from_then_on(keys: KeyCache, server: KeyServer) -> None:
    await keys.load()
    assert await keys.key("a") is not None
    assert server.fetches == 1


async def test_a_start_without_keys_fails(keys: KeyCache, server: KeyServer) -> None:
    """BR-27"""
    server.failing = True
    with pytest.raises(KeySetUnavailable):
        await keys.load()
    assert await unavailable(keys, "a")
    assert server.fetches == 1, "the second question comes inside the pause"


async def test_a_hundred_unknown_ids_are_one_fetch_a_minute(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    """BR-25"""
    await keys.load()
    await clock.advance(60)
    answers = await asyncio.gather(*(keys.key(f"random-{n}") for n in range(100)))
    assert answers == [None] * 100
    assert server.fetches == 2
    await clock.advance(59)
    await asyncio.gather(*(keys.key(f"other-{n}") for n in range(100)))
    assert server.fetches == 2
    await clock.advance(2)
    await asyncio.gather(*(keys.key(f"late-{n}") for n in range(100)))
    assert server.fetches == 3
    assert await keys.key("a") is not None


async def test_failed_fetches_count_like_good_ones(keys: KeyCache, server: KeyServer, clock: ManualClock) -> None:
    await keys.load()
    server.failing = True
    await clock.advance(3601)
    for _ in range(10):
        assert await unavailable(keys, "a")
        await clock.advance(1)
    assert server.fetches == 2
    await clock.advance(60)
    assert await unavailable(keys, "a")
    assert server.fetches == 3


async def test_known_keys_answer_while_a_fetch_hangs(keys: KeyCache, server: KeyServer, clock: ManualClock) -> None:
    """BR-25"""
    await keys.load()
    await clock.advance(60)
    server.hanging = asyncio.Event()
    unknown = asyncio.create_task(keys.key("unknown"))
    await asyncio.sleep(0)
    assert server.fetches == 2
    answers = await asyncio.gather(*(keys.key("a") for _ in range(50)))
    assert None not in answers
    assert not unknown.done()
    await clock.advance(10)
    with pytest.raises(KeySetUnavailable):
        await unknown


async def test_a_waiter_that_goes_away_leaves_the_others_their_answer(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    await keys.load()
    await clock.advance(60)
    server.hanging = asyncio.Event()
    first, second = asyncio.create_task(keys.key("b")), asyncio.create_task(keys.key("b"))
    await asyncio.sleep(0)
    second.cancel()
    server.keys["b"] = public_jwk("b")
    server.hanging.set()
    assert await first is not None
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_a_rotated_key_is_found_when_it_is_first_asked_for(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    await keys.load()
    server.keys = {"a": public_jwk("a"), "b": public_jwk("b")}
    before = await keys.key("a")
    await clock.advance(61)
    assert await keys.key("b") is not None
    assert await keys.key("a") is before, "an unchanged key stays the same, and with it what it verified"
    server.keys = {"b": public_jwk("b"), "a": public_jwk("c", kid="a")}
    await clock.advance(61)
    assert await keys.key("unknown") is None
    assert await keys.key("a") is not before


async def test_a_key_that_is_withdrawn_is_no_longer_known(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    await keys.load()
    server.keys = {"b": public_jwk("b")}
    async with running(keys):
        await clock.advance(1800)
    assert await keys.key("a") is None


async def test_a_key_that_is_unknown_during_an_outage_is_no_refusal(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    """BR-27"""
    await keys.load()
    server.failing = True
    await clock.advance(61)
    assert await unavailable(keys, "new")
    assert await unavailable(keys, "new"), "also inside the pause: the list is not fresh"
    assert await keys.key("a") is not None


async def test_keys_are_refreshed_ahead_of_time(keys: KeyCache, server: KeyServer, clock: ManualClock) -> None:
    await keys.load()
    async with running(keys):
        await clock.advance(1799)
        assert server.fetches == 1
        await clock.advance(1)
        assert server.fetches == 2
        await clock.advance(4 * 1800)
        assert server.fetches == 6
        assert keys.age == 0


async def test_an_outage_of_half_an_hour_is_not_felt(keys: KeyCache, server: KeyServer, clock: ManualClock) -> None:
    await keys.load()
    async with running(keys):
        server.failing = True
        await clock.advance(3600)
        assert await keys.key("a") is not None
        assert server.fetches == 1 + 31, "one try a minute from the half hour on"
        await clock.advance(1)
        assert await unavailable(keys, "a")
        server.failing = False
        await clock.advance(60)
        assert await keys.key("a") is not None


async def test_grace_keeps_known_keys_for_longer_and_says_so(server: KeyServer, clock: ManualClock) -> None:
    """BR-27"""
    keys = KeyCache(server, clock, timedelta(hours=6))
    await keys.load()
    server.failing = True
    used = []
    for seconds in (3600, 1, 6 * 3600 - 1):
        await clock.advance(seconds)
        used.append(keys.in_grace)
        assert await keys.key("a") is not None
    assert used == [False, True, True]
    assert await unavailable(keys, "new")
    await clock.advance(1)
    assert await unavailable(keys, "a")
    assert [keys.in_grace] == [False]


@pytest.mark.parametrize(
    "served",
    [
        {},
        {"a": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}},
        {"a": public_jwk("a", alg="RS512")},
        {"a": public_jwk("a", use="enc")},
        {"a": public_jwk("a", n=5)},
        {"a": public_jwk("a", e=None)},
        {"a": public_jwk("a", n="é" * 400)},
        {"a": public_jwk("a", n=encoded(b"\0" * 256))},
        {"a": public_jwk("small", bits=1024)},
        {"a": {}},
    ],
)
async def test_a_set_without_a_usable_key_is_a_failed_fetch(
    keys: KeyCache, server: KeyServer, clock: ManualClock, served: dict[str, Jwk]
) -> None:
    """BR-27"""
    await keys.load()
    server.keys = served
    await clock.advance(61)
    assert await unavailable(keys, "new")
    assert await keys.key("a") is not None, "what was known is kept"


async def test_a_key_without_a_named_algorithm_is_usable_and_a_private_part_is_not_looked_at(
    keys: KeyCache, server: KeyServer
) -> None:
    server.keys = {"a": public_jwk("a", alg=None, use=None, d="junk")}
    await keys.load()
    assert await keys.key("a") is not None


async def test_the_age_is_none_before_the_first_fetch(keys: KeyCache, clock: ManualClock) -> None:
    assert keys.age is None
    await keys.load()
    await clock.advance(5)
    assert keys.age == 5


async def test_a_failed_fetch_tells_how_old_the_keys_are(keys: KeyCache, server: KeyServer, clock: ManualClock) -> None:
    """An alert compares the number."""
    await keys.load()
    server.failing = True
    await clock.advance(2700)
    with capture_logs() as lines:
        assert await unavailable(keys, "new")
    assert [(line["event"], line["age"]) for line in lines] == [(KEYS_NOT_REFRESHED, 2700)]


async def test_the_background_task_loads_what_the_start_did_not(
    keys: KeyCache, server: KeyServer, clock: ManualClock
) -> None:
    server.failing = True
    async with running(keys):
        await clock.advance(30)
        server.failing = False
        await clock.advance(30)
        assert await keys.key("a") is not None
