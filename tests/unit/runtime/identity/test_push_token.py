"""Push tokens: only the push identity, only for this audience, only with a signature of Google's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from jose import jws
from jose.backends.cryptography_backend import CryptographyRSAKey
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.contract.errors import Decision
from runtime.contract.outcomes import OUTCOMES
from runtime.contract.settings.words import PushAuth
from runtime.identity.key_cache import KeyCache, KeySetUnavailable
from runtime.identity.push_token import PushRefused, PushVerifier
from tests.support.google_tokens import KeyServer, encoded, google_token, public_jwk

AUDIENCE = "https://worker-abc-uc.a.run.app"
ACCOUNT = "push@p-test.iam.gserviceaccount.com"
STRIPPED = "SIGNATURE_REMOVED_BY_GOOGLE"
LEEWAY = 30


class Bench:
    """A verifier over a key server, on a clock that the test moves."""

    def __init__(self, mode: PushAuth = PushAuth.IN_PROCESS) -> None:
        self.clock = ManualClock()
        self.server = KeyServer()
        self.keys = KeyCache(self.server, self.clock)
        self.verifier = PushVerifier(mode, ACCOUNT, self.keys, self.clock)

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(self.clock.now().timestamp())
        return {
            "iss": "https://accounts.google.com", "aud": AUDIENCE, "sub": "1", "email": ACCOUNT,
            "email_verified": True, "iat": now, "exp": now + 3600, **changes,
        }  # fmt: skip

    def token(self, **changes: Any) -> str:
        return google_token(self.claims(**changes))

    async def verify(self, *headers: str | bytes, audience: str = AUDIENCE) -> None:
        values = [header if isinstance(header, bytes) else f"Bearer {header}".encode() for header in headers]
        await self.verifier.verify(values, audience)

    async def refusal(self, *headers: str | bytes, audience: str = AUDIENCE) -> str:
        with pytest.raises(PushRefused) as raised:
            await self.verify(*headers, audience=audience)
        assert raised.value.decision is Decision.REFUSED
        assert OUTCOMES[raised.value.code].status == 401
        return raised.value.code


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.keys.load()
    return bench


@pytest.mark.parametrize("mode", PushAuth)
async def test_the_push_identity_passes_in_either_mode(mode: PushAuth) -> None:
    bench = Bench(mode)
    await bench.verify(bench.token())


@pytest.mark.parametrize("issuer", ["https://accounts.google.com", "accounts.google.com"])
async def test_both_spellings_of_the_issuer_pass(bench: Bench, issuer: str) -> None:
    await bench.verify(bench.token(iss=issuer))


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("aud", "https://other-uc.a.run.app"), ("aud", ...), ("aud", ""), ("aud", None), ("aud", 5),
        ("aud", [AUDIENCE]), ("aud", AUDIENCE + "/"), ("aud", AUDIENCE.upper()),
        ("iss", "https://"), ("iss", "accounts"), ("iss", "https://accounts.google.com/"),
        ("iss", "https://accounts.google.com.evil"), ("iss", ["accounts.google.com"]), ("iss", ...), ("iss", None),
        ("email_verified", "true"), ("email_verified", "false"), ("email_verified", 1), ("email_verified", None),
        ("email_verified", ...), ("email_verified", False),
        ("email", "Push@p-test.iam.gserviceaccount.com"), ("email", f"{ACCOUNT} "), ("email", ...), ("email", 123),
        ("email", "other@p-test.iam.gserviceaccount.com"),
        ("sub", ...), ("sub", ""), ("sub", 1),
        ("exp", ...), ("exp", "1700000000"), ("exp", True), ("exp", 1e30), ("exp", None), ("exp", 10**400),
        ("iat", ...), ("iat", "1700000000"), ("iat", None), ("iat", True), ("nbf", "0"), ("nbf", None),
    ],
)  # fmt: skip
async def test_a_claim_that_is_not_exactly_right_is_refused(bench: Bench, claim: str, value: object) -> None:
    """BR-18, BR-20, BR-21, BR-22"""
    changes: dict[str, Any] = {claim: value}
    assert await bench.refusal(bench.token(**changes)) == "push_token_rejected"
    assert bench.server.fetches == 1, "nothing is fetched for it"


@pytest.mark.parametrize(
    ("claim", "offset", "passes"),
    [
        ("iat", LEEWAY - 1, True), ("iat", LEEWAY + 5, False), ("exp", -LEEWAY + 1, True), ("exp", -LEEWAY - 5, False),
        ("nbf", LEEWAY - 1, True), ("nbf", LEEWAY + 5, False), ("exp", 86400, True), ("exp", 86500, False),
    ],
)  # fmt: skip
async def test_clocks_may_differ_by_half_a_minute(bench: Bench, claim: str, offset: int, passes: bool) -> None:
    """BR-22"""
    changes: dict[str, Any] = {claim: int(bench.clock.now().timestamp()) + offset}
    token = bench.token(**changes)
    if passes:
        await bench.verify(token)
    else:
        assert await bench.refusal(token) == "push_token_rejected"


async def test_an_empty_audience_refuses_all(bench: Bench) -> None:
    assert await bench.refusal(bench.token(aud=""), audience="") == "push_token_rejected"


async def test_the_scheme_may_be_in_any_case(bench: Bench) -> None:
    """BR-29"""
    for scheme in ("bearer", "BEARER", "Bearer"):
        await bench.verify(f"{scheme} {bench.token()}".encode())


async def test_there_is_one_header_one_space_and_one_token(bench: Bench) -> None:
    """BR-29"""
    good = bench.token().encode()
    for headers in (
        (), (b"Bearer " + good, b"Bearer bad"), (b"Bearer bad", b"Bearer " + good),
        (b"Bearer " + good, b"Bearer " + good), (b"Basic " + good,), (b"Bearer  " + good,), (b"Bearer",), (b"",),
        (b"Bearer ",), (b"Bearer " + good + b", Bearer " + good,), (good,), (b"Bearer\t" + good,),
        (b"Bearer " + good + b" ",), (b" Bearer " + good,),
    ):  # fmt: skip
        assert await bench.refusal(*headers) == "push_token_rejected"


@pytest.mark.parametrize("value", [b"Bearer \xff\xfe.a.b", b"Bearer caf\xe9", "Bearer ä.b.c".encode(), b"Bearer a.b.c"])
async def test_bytes_that_no_token_has_are_a_refusal_and_no_error(bench: Bench, value: bytes) -> None:
    """BR-24"""
    assert await bench.refusal(value) == "push_token_rejected"


async def test_a_header_of_any_length_is_refused_without_being_read(bench: Bench) -> None:
    assert await bench.refusal(b"Bearer " + b"a" * 1_000_000) == "push_token_rejected"


async def test_only_the_pinned_algorithm_is_accepted(bench: Bench) -> None:
    claims = bench.claims()
    body = encoded(json.dumps(claims).encode())
    for token in (
        jws.sign(claims, "secret", headers={"kid": "a"}, algorithm="HS256"),
        google_token(claims, alg="RS512"), google_token(claims, alg="none"), google_token(claims, alg=...),
        google_token(claims, kid=..., key="a"),  # type: ignore[arg-type]  # left out of the header
        google_token(claims, key="a", kid=""), google_token(claims, crit=["exp"]),
        f"{encoded(json.dumps({'alg': 'none', 'kid': 'a'}).encode())}.{body}.AAAA",
    ):  # fmt: skip
        assert await bench.refusal(token) == "push_token_rejected"
    assert bench.server.fetches == 1


async def test_a_signature_of_another_key_or_over_other_claims_does_not_hold(bench: Bench) -> None:
    assert await bench.refusal(google_token(bench.claims(), key="b", kid="a")) == "push_token_rejected"
    header, _, signature = bench.token(sub="2").split(".")
    assert await bench.refusal(f"{header}.{bench.token().split('.')[1]}.{signature}") == "push_token_rejected"
    good = bench.token()
    await bench.verify(good)
    for at in range(0, len(good), 41):
        changed = good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :]
        assert await bench.refusal(changed) == "push_token_rejected"


async def test_a_removed_signature_is_refused_where_the_worker_alone_checks(bench: Bench) -> None:
    """BR-17"""
    token = bench.token().rsplit(".", 1)[0] + f".{STRIPPED}"
    with capture_logs() as lines:
        assert await bench.refusal(token) == "push_signature_stripped"
    assert [(line["log_level"], line["event"]) for line in lines] == [("error", "push_signature_stripped")]


async def test_a_removed_signature_passes_after_the_platforms_check_if_every_claim_is_right() -> None:
    """BR-17"""
    bench = Bench(PushAuth.PLATFORM)
    await bench.verify(google_token(bench.claims()).rsplit(".", 1)[0] + f".{STRIPPED}")
    assert bench.server.fetches == 0, "there is nothing to verify with a key"
    for change in ({"aud": "x"}, {"email": "other@x"}, {"exp": 5}, {"iss": "x"}):
        changes: dict[str, Any] = change
        stripped = bench.token(**changes).rsplit(".", 1)[0] + f".{STRIPPED}"
        assert await bench.refusal(stripped) == "push_token_rejected"


@pytest.mark.parametrize("signature", ["", "AAAA", STRIPPED.lower(), STRIPPED + "AAAAA", "SIGNATURE_REMOVED"])
async def test_no_other_signature_is_taken_for_the_platforms(signature: str) -> None:
    bench = Bench(PushAuth.PLATFORM)
    await bench.keys.load()
    assert await bench.refusal(bench.token().rsplit(".", 1)[0] + f".{signature}") == "push_token_rejected"


async def test_a_key_that_google_does_not_have_is_refused(bench: Bench) -> None:
    await bench.clock.advance(60)
    assert await bench.refusal(google_token(bench.claims(), kid="b")) == "push_token_rejected"
    assert bench.server.fetches == 2


async def test_no_keys_say_nothing_about_the_caller() -> None:
    """BR-27"""
    bench = Bench()
    bench.server.failing = True
    with pytest.raises(KeySetUnavailable) as raised:
        await bench.verify(bench.token())
    assert OUTCOMES[raised.value.code].status == 503


async def test_a_known_token_is_not_verified_again_until_its_key_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[bytes] = []
    real: Any = CryptographyRSAKey.verify

    def counted(key: CryptographyRSAKey, signed: bytes, signature: bytes) -> bool:
        checks.append(signed)
        return bool(real(key, signed, signature))

    monkeypatch.setattr(CryptographyRSAKey, "verify", counted)
    token = bench.token()
    for _ in range(3):
        await bench.verify(token)
    assert len(checks) == 1
    assert await bench.refusal(token, audience="https://other") == "push_token_rejected", "claims are checked each time"
    bench.server.keys["a"] = public_jwk("b", kid="a")
    await bench.clock.advance(1801)
    assert await bench.keys.key("new") is None
    assert await bench.refusal(token) == "push_token_rejected"
    assert len(checks) == 2


@pytest.mark.parametrize("mode", PushAuth)
async def test_a_known_token_is_valid_no_longer_and_no_earlier_than_a_new_one(mode: PushAuth) -> None:
    bench = Bench(mode)
    await bench.keys.load()
    starts = int(bench.clock.now().timestamp()) + 20
    token = bench.token(nbf=starts, exp=starts + 600)
    if mode is PushAuth.PLATFORM:
        token = token.rsplit(".", 1)[0] + f".{STRIPPED}"
    for moment, good in ((0, True), (-11, False), (-9, True), (649, True), (651, False), (600, True)):
        bench.clock.skew(moment)
        if good:
            await bench.verify(token)
        else:
            assert await bench.refusal(token) == "push_token_rejected", "the clock may also go back"
        bench.clock.skew(-moment)


async def test_a_known_token_needs_a_key_that_is_still_known(bench: Bench) -> None:
    token = bench.token(exp=int(bench.clock.now().timestamp()) + 80_000)
    await bench.verify(token)
    bench.server.failing = True
    await bench.clock.advance(3601)
    with pytest.raises(KeySetUnavailable):
        await bench.verify(token)


async def test_a_token_that_failed_is_verified_each_time(bench: Bench) -> None:
    forged = google_token(bench.claims(), key="b", kid="a")
    for _ in range(3):
        assert await bench.refusal(forged) == "push_token_rejected"


async def test_good_tokens_pass_while_unknown_keys_wait_for_a_fetch(bench: Bench) -> None:
    """BR-25"""
    await bench.clock.advance(61)
    bench.server.hanging = asyncio.Event()
    unknown = [asyncio.create_task(bench.verify(google_token(bench.claims(), kid="b"))) for _ in range(20)]
    await asyncio.gather(*(bench.verify(bench.token()) for _ in range(50)))
    assert not any(task.done() for task in unknown)
    bench.server.keys["b"] = public_jwk("b")
    bench.server.hanging.set()
    await asyncio.gather(*unknown)
    assert bench.server.fetches == 2


async def test_a_refusal_repeats_nothing_of_the_token(bench: Bench) -> None:
    token = bench.token(email="mallory@evil.example")
    with pytest.raises(PushRefused) as raised:
        await bench.verify(token)
    assert "mallory" not in str(raised.value)
    assert token[:30] not in str(raised.value)
