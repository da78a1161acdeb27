"""API keys: their form, who is let in, what is cached, and what is never kept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import MemoryDocuments
from runtime.api.api_key import Caller, Scope, make_key, parse_key
from runtime.api.bearer import bearer_token
from runtime.api.key_ring import CACHE_KEYS, KeyRing
from runtime.api.key_store import KeyStore
from runtime.api.problem import Problem
from runtime.contract import names
from runtime.ports.documents import Query
from tests.support.faulty_documents import Fault, FaultyDocuments

ADMIN = Caller("root", frozenset({Scope.ADMIN}))
ROOT_SECRET = "r" * 40
ROOT = f"hf_root_{ROOT_SECRET}"


class KeyBench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.documents = FaultyDocuments(MemoryDocuments(self.clock))
        self.ring = KeyRing({"root": hashlib.sha256(ROOT_SECRET.encode()).hexdigest()}, self.documents, self.clock)
        self.keys = KeyStore(self.documents, self.ring, self.clock)

    async def create(self, **body: Any) -> str:
        return (await self.keys.create(json.dumps(body).encode(), ADMIN))[1]

    async def verify(self, key: str, scope: Scope = Scope.RUNS) -> Caller:
        return await self.ring.verify([f"Bearer {key}".encode()], scope)

    async def refusal(self, *authorization: bytes, scope: Scope = Scope.RUNS) -> Problem:
        with pytest.raises(Problem) as caught:
            await self.ring.verify(list(authorization), scope)
        return caught.value


async def test_a_key_of_the_settings_may_do_everything() -> None:
    bench = KeyBench()
    assert await bench.verify(ROOT, Scope.ADMIN) == Caller("root", frozenset({Scope.ADMIN}))
    assert (await bench.verify(ROOT, Scope.RUNS)).name == "root"
    assert bench.documents.calls == [], "no store is asked for it"


@pytest.mark.parametrize(
    "authorization",
    [
        (),
        (b"",),
        (b"Basic cm9vdA==",),
        (f"Bearer  {ROOT}".encode(),),
        (f"Bearer {ROOT} ".encode(),),
        (f"Bearer {ROOT}".encode(), f"Bearer {ROOT}".encode()),
        (f"Bearer {ROOT}, Bearer {ROOT}".encode(),),
        (b"Bearer caf\xe9",),
        (b"Bearer " + b"x" * 9000,),
        (b"Bearer hf_root_short",),
        (f"Bearer {ROOT}x".encode(),),
        (f"Bearer hf_nobody_{ROOT_SECRET}".encode(),),
        (f"Bearer {ROOT_SECRET}".encode(),),
    ],
    ids=[
        "none", "empty", "basic", "two blanks", "trailing", "BR-29 two headers", "BR-29 list", "BR-24 bytes", "long",
        "short secret", "wrong secret", "unknown name", "no name",
    ],
)  # fmt: skip
async def test_anything_but_one_good_key_is_a_401_that_says_how(authorization: tuple[bytes, ...]) -> None:
    problem = await KeyBench().refusal(*authorization)
    assert (problem.status, problem.code) == (401, "api_key_invalid")
    assert problem.headers["WWW-Authenticate"].startswith("Bearer")


async def test_the_scheme_is_read_in_any_case() -> None:
    assert (await KeyBench().ring.verify([f"bEARER {ROOT}".encode()], Scope.RUNS)).name == "root"


async def test_a_created_key_is_shown_once_and_only_its_hash_is_kept() -> None:
    bench = KeyBench()
    key = await bench.create(name="shop")
    assert (await bench.verify(key)).scopes == {Scope.RUNS}
    (document,) = await bench.documents.query(Query(names.API_KEYS))
    secret = key.removeprefix("hf_shop_")
    assert secret not in str(document.data)
    assert document.data["hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert document.data["hash"] not in repr((await bench.keys.list())[0])


async def test_a_key_may_do_only_what_its_scopes_say() -> None:
    bench = KeyBench()
    key = await bench.create(name="shop", scopes=["runs"])
    problem = await bench.refusal(f"Bearer {key}".encode(), scope=Scope.ADMIN)
    assert (problem.status, problem.code) == (403, "scope_missing")
    assert (await bench.verify(await bench.create(name="boss", scopes=["admin"]))).may(Scope.RUNS)


async def test_a_verified_key_is_not_read_again_for_half_a_minute() -> None:
    bench = KeyBench()
    key = await bench.create(name="shop")
    await bench.verify(key)
    bench.documents.calls.clear()
    await bench.clock.advance(29.9)
    await bench.verify(key)
    assert bench.documents.calls == []
    await bench.clock.advance(0.1)
    await bench.verify(key)
    assert bench.documents.calls == ["get"]


async def test_a_revocation_holds_at_once_here_and_within_half_a_minute_elsewhere() -> None:
    bench = KeyBench()
    elsewhere = KeyRing({}, bench.documents, bench.clock)
    key = await bench.create(name="shop")
    authorization = [f"Bearer {key}".encode()]
    await bench.verify(key)
    await elsewhere.verify(authorization, Scope.RUNS)
    await bench.keys.revoke("shop")
    assert (await bench.refusal(*authorization)).code == "api_key_invalid"
    await bench.clock.advance(30)
    with pytest.raises(Problem):
        await elsewhere.verify(authorization, Scope.RUNS)


async def test_a_refused_key_is_never_cached() -> None:
    bench = KeyBench()
    name, (key, _) = "late", make_key("late")
    await bench.refusal(f"Bearer {key}".encode())
    good = await bench.create(name=name)
    assert (await bench.verify(good)).name == name


async def test_the_cache_is_bounded() -> None:
    bench = KeyBench()
    keys = [await bench.create(name=f"k{number}") for number in range(3)]
    for key in keys:
        await bench.verify(key)
    for number in range(CACHE_KEYS):
        bench.ring._cache[parse_key(f"hf_x{number}_{'s' * 20}".encode())] = (0, ADMIN)  # type: ignore[index]  # it is a key
    await bench.clock.advance(31)
    await bench.verify(keys[0])
    assert len(bench.ring._cache) == CACHE_KEYS


async def test_names_are_given_once_even_after_a_revocation() -> None:
    bench = KeyBench()
    await bench.create(name="shop")
    await bench.keys.revoke("shop")
    await bench.keys.revoke("shop")
    for name in ("shop", "root"):
        with pytest.raises(Problem) as caught:
            await bench.create(name=name)
        assert (caught.value.status, caught.value.code) == (409, "key_exists")


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({}, {"/name"}),
        ({"name": "Shop"}, {"/name"}),
        ({"name": "a_b"}, {"/name"}),
        ({"name": "shop", "scopes": []}, {"/scopes"}),
        ({"name": "shop", "scopes": ["root"]}, {"/scopes"}),
        ({"name": "-", "scopes": "admin", "key": "x"}, {"/name", "/scopes", "/key"}),
    ],
)
async def test_a_request_for_a_key_that_does_not_hold_is_refused_with_the_places(
    body: dict[str, Any], places: set[str]
) -> None:
    bench = KeyBench()
    with pytest.raises(Problem) as caught:
        await bench.create(**body)
    assert {fault.pointer for fault in caught.value.faults} == places
    assert await bench.keys.list() == []


@pytest.mark.parametrize(
    ("name", "code"), [("nobody", "key_not_found"), ("a/b", "key_not_found"), ("root", "key_is_bootstrap")]
)
async def test_only_stored_keys_can_be_revoked(name: str, code: str) -> None:
    with pytest.raises(Problem) as caught:
        await KeyBench().keys.revoke(name)
    assert caught.value.code == code


async def test_a_creation_whose_answer_was_lost_still_hands_out_the_key() -> None:
    bench = KeyBench()
    bench.documents.at(_0=Fault.ANSWER_LOST)
    assert (await bench.verify(await bench.create(name="shop"))).name == "shop"


@given(st.binary(max_size=60))
def test_no_bytes_are_taken_for_a_key_by_accident(raw: bytes) -> None:
    token = bearer_token([raw])
    parsed = None if token is None else parse_key(token)
    assert parsed is None or raw.lower().startswith(b"bearer hf_")
