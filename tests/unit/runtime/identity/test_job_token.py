"""Job tokens: what the API signed passes, nothing else does."""

from __future__ import annotations

import json
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jose import jws

from runtime.contract.errors import Decision
from runtime.identity.job_token import MATCHED, JobRefused, JobSigner, JobVerifier
from runtime.identity.keys import UnusableKey
from runtime.identity.payload_hash import PayloadNotCanonical
from tests.support.google_tokens import encoded, google_token
from tests.support.job_keys import pair

NOW = datetime(2026, 11, 30, 12, 0, 0, 500_000, tzinfo=UTC)
KEYS = pair().keys
SIGNER = JobSigner(KEYS.private_pem, "k1")
VERIFIER = JobVerifier(KEYS.public_pem, "k1")
PAYLOAD: dict[str, object] = {
    "job_id": "run-1.1", "run_id": "run-1", "app_id": "app", "user_id": "user", "engine": "flow",
    "spec": {"nodes": [1, 2.5]}, "payload": {"é": None, "a": [True]}, "timeout_ms": 540000, "max_attempts": 3,
    "execution_mode": "async", "callback_url": "https://api.example",
}  # fmt: skip


def signed(payload: dict[str, object] = PAYLOAD, **options: Any) -> dict[str, object]:
    token = SIGNER.sign(payload, **{"subject": "user", "lifetime": timedelta(hours=1), "now": NOW, **options})
    return {**payload, "executor_jwt": token}


JOB = signed()
TOKEN = str(JOB["executor_jwt"])


def refusal(job: dict[str, object], now: datetime = NOW) -> str:
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify(job, now)
    assert raised.value.decision is Decision.PERMANENT
    return raised.value.code


def resigned(key: str = KEYS.private_pem, *, kid: str = "k1", **changes: Any) -> str:
    """A token with other claims, signed with the real key."""
    claims: dict[str, object] = json.loads(jws.get_unverified_claims(TOKEN))
    claims = {name: value for name, value in {**claims, **changes}.items() if value is not ...}
    return jws.sign(claims, key, headers={"kid": kid}, algorithm="ES256")


def test_what_was_signed_is_verified() -> None:
    claims = VERIFIER.verify(JOB, NOW)
    assert claims == VERIFIER.verify_token(TOKEN, NOW)
    assert (claims.subject, claims.run_id, claims.app_id, claims.job_id) == ("user", "run-1", "app", "run-1.1")
    assert claims.callback_url == "https://api.example"
    assert claims.issued_at == NOW.replace(microsecond=0)
    assert claims.expires_at - claims.issued_at == timedelta(hours=1)


def test_the_token_says_who_made_it_for_whom() -> None:
    claims = json.loads(jws.get_unverified_claims(TOKEN))
    assert set(claims) == {
        "iss", "aud", "typ", "sub", "run_id", "app_id", "job_id", "callback_url", "iat", "nbf", "exp", "jti",
        "dispatch_hash",
    }  # fmt: skip
    assert (claims["iss"], claims["aud"], claims["typ"]) == ("holdfast", "holdfast-executor", "executor")
    assert jws.get_unverified_header(TOKEN) == {"alg": "ES256", "kid": "k1", "typ": "JWT"}
    assert json.loads(jws.get_unverified_claims(str(signed()["executor_jwt"])))["jti"] != claims["jti"]


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(string.ascii_letters + string.digits + "-_.=+/ é"))
def test_no_character_of_a_token_can_be_changed(at: int, character: str) -> None:
    assume(TOKEN[at] != character)
    assert refusal({**JOB, "executor_jwt": TOKEN[:at] + character + TOKEN[at + 1 :]}) == "job_token_invalid"


@pytest.mark.parametrize("name", sorted(PAYLOAD))
@pytest.mark.parametrize("value", ["changed", 7, None, {}, ...])
def test_no_field_of_a_signed_job_can_be_changed_or_removed(name: str, value: object) -> None:
    job = {field: content for field, content in {**JOB, name: value}.items() if content is not ...}
    assert refusal(job) == "job_payload_mismatch"


@given(st.text().filter(lambda name: name not in JOB), st.none() | st.integers(0, 9) | st.text())
def test_no_field_can_be_added_to_a_signed_job(name: str, value: object) -> None:
    assert refusal({**JOB, name: value}) == "job_payload_mismatch"


def test_the_order_of_keys_does_not_matter() -> None:
    VERIFIER.verify(dict(reversed(JOB.items())), NOW)


def test_a_job_cannot_carry_the_token_of_another() -> None:
    other = signed({**PAYLOAD, "run_id": "run-2", "job_id": "run-2.1"})
    assert refusal({**other, "executor_jwt": TOKEN}) == "job_payload_mismatch"


@pytest.mark.parametrize("token", [None, 5, "", "a.b", "a.b.c", "x" * 20000, TOKEN + ".", TOKEN.encode()])
def test_what_is_no_token_is_refused(token: object) -> None:
    assert refusal({**JOB, "executor_jwt": token}) == "job_token_invalid"
    assert refusal({name: value for name, value in JOB.items() if name != "executor_jwt"}) == "job_token_invalid"


def test_only_the_pinned_algorithm_and_key_are_accepted() -> None:
    claims = json.loads(jws.get_unverified_claims(TOKEN))
    body = encoded(json.dumps(claims).encode())
    unsigned = encoded(b'{"alg":"none","kid":"k1"}')
    forged = [
        f"{unsigned}.{body}.AAAA",
        jws.sign(claims, "secret", headers={"kid": "k1"}, algorithm="HS256"),
        google_token(claims, kid="k1"),
        resigned(pair("second").keys.private_pem),
        resigned(kid="k2"),
    ]
    for token in forged:
        with pytest.raises(JobRefused) as raised:
            VERIFIER.verify_token(token, NOW)
        assert raised.value.code == "job_token_invalid"


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "flow-like"), ("iss", ...), ("aud", "other"), ("aud", ["holdfast-executor"]), ("typ", "user"),
        ("typ", ...), ("sub", ""), ("run_id", 5), ("jti", ...), ("dispatch_hash", ...), ("exp", ...),
        ("exp", "1790000000"), ("exp", True), ("exp", 1e30), ("iat", ...), ("iat", -1), ("nbf", ...),
        ("callback_url", None),
    ],
)  # fmt: skip
def test_a_claim_that_is_missing_or_of_another_kind_is_refused(claim: str, value: Any) -> None:
    changes: dict[str, Any] = {claim: value}
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify_token(resigned(**changes), NOW)
    assert raised.value.code == "job_token_invalid"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_slow_clock_refuses_no_genuine_job(claim: str) -> None:
    changes: dict[str, Any] = {claim: int(NOW.timestamp()) + 300}
    assert VERIFIER.verify_token(resigned(**changes), NOW).run_id == JOB["run_id"]


@pytest.mark.parametrize("claim", MATCHED)
def test_a_claim_that_differs_from_the_job_is_refused(claim: str) -> None:
    assert refusal({**JOB, "executor_jwt": resigned(**{claim: "other"})}) == "job_payload_mismatch"


def test_a_token_lives_for_its_life_and_the_clocks_difference() -> None:
    end = NOW.replace(microsecond=0) + timedelta(hours=1)
    VERIFIER.verify(JOB, end + timedelta(seconds=30))
    assert refusal(JOB, end + timedelta(seconds=31)) == "job_token_expired"
    VERIFIER.verify(JOB, NOW - timedelta(minutes=5))


@pytest.mark.parametrize("name", MATCHED)
def test_nothing_is_signed_that_could_not_be_matched(name: str) -> None:
    with pytest.raises(JobRefused, match=name):
        signed({**PAYLOAD, name: ""})
    with pytest.raises(JobRefused, match="subject"):
        signed(subject="")


def test_nothing_is_signed_that_could_not_be_hashed_again() -> None:
    with pytest.raises(PayloadNotCanonical):
        signed({**PAYLOAD, "payload": 2**60})


def test_a_job_that_cannot_be_hashed_is_a_mismatch() -> None:
    assert refusal({**JOB, "payload": 2**60}) == "job_payload_mismatch"


@pytest.mark.parametrize("pem", ["", "text", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_a_key_that_is_none_is_refused_at_once(pem: str) -> None:
    with pytest.raises(UnusableKey):
        JobSigner(pem, "k1")
    with pytest.raises(UnusableKey):
        JobVerifier(pem, "k1")


def test_an_error_repeats_nothing_of_the_token() -> None:
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify_token(TOKEN[:-2], NOW)
    assert TOKEN[:20] not in str(raised.value)
