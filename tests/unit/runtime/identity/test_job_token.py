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
from runtime.contract.settings.verifying_keys import PreviousKey
from runtime.identity.job_token import MATCHED, JobRefused, JobSigner, JobVerifier
from runtime.identity.keys import JobKeys, UnusableKey, environment_value
from runtime.identity.payload_hash import PayloadNotCanonical
from tests.support.google_tokens import encoded, google_token
from tests.support.job_keys import pair

NOW = datetime(2026, 11, 30, 12, 0, 0, 500_000, tzinfo=UTC)
FIRST, SECOND = pair(), pair("second")
VERIFIER = JobVerifier(FIRST.keys.public_pem, "k1", PreviousKey(SECOND.public, "k2"))
PAYLOAD: dict[str, object] = {
    "job_id": "run-1.1", "run_id": "run-1", "app_id": "app", "user_id": "user", "engine": "flow",
    "spec": {"nodes": [1, 2.5]}, "payload": {"é": None, "a": [True]}, "timeout_ms": 540000, "max_attempts": 3,
    "execution_mode": "async", "callback_url": "https://api.example",
}  # fmt: skip


class Signed:
    """Jobs under one of the two accepted keys."""

    def __init__(self, keys: JobKeys, kid: str) -> None:
        self.key, self.kid = keys.private_pem, kid
        self.signer = JobSigner(self.key, kid)
        self.job = self.sign()
        self.token = str(self.job["executor_jwt"])

    def sign(self, payload: dict[str, object] = PAYLOAD, **options: Any) -> dict[str, object]:
        """The payload with its token."""
        given = {"subject": "user", "lifetime": timedelta(hours=1), "now": NOW, **options}
        return {**payload, "executor_jwt": self.signer.sign(payload, **given)}

    def resign(self, key: str = "", *, kid: str = "", **changes: Any) -> str:
        """The token with other claims, signed with the real key; an empty text is what it was."""
        claims = {**json.loads(jws.get_unverified_claims(self.token)), **changes}
        claims = {name: value for name, value in claims.items() if value is not ...}
        return jws.sign(claims, key or self.key, headers={"kid": kid or self.kid}, algorithm="ES256")


CURRENT, PREVIOUS = Signed(FIRST.keys, "k1"), Signed(SECOND.keys, "k2")
under_either_key = pytest.mark.parametrize("signed", [CURRENT, PREVIOUS], ids=["current", "previous"])


def refusal(job: dict[str, object], now: datetime = NOW) -> str:
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify(job, now)
    assert raised.value.decision is Decision.PERMANENT
    return raised.value.code


@under_either_key
def test_what_was_signed_is_verified(signed: Signed) -> None:
    claims = VERIFIER.verify(signed.job, NOW)
    assert claims == VERIFIER.verify_token(signed.token, NOW)
    assert (claims.subject, claims.run_id, claims.app_id, claims.job_id) == ("user", "run-1", "app", "run-1.1")
    assert claims.callback_url == "https://api.example"
    assert claims.issued_at == NOW.replace(microsecond=0)
    assert claims.expires_at - claims.issued_at == timedelta(hours=1)


@under_either_key
def test_the_token_says_who_made_it_for_whom(signed: Signed) -> None:
    claims = json.loads(jws.get_unverified_claims(signed.token))
    assert set(claims) == {
        "iss", "aud", "typ", "sub", "run_id", "app_id", "job_id", "callback_url", "iat", "nbf", "exp", "jti",
        "dispatch_hash",
    }  # fmt: skip
    assert (claims["iss"], claims["aud"], claims["typ"]) == ("holdfast", "holdfast-executor", "executor")
    assert jws.get_unverified_header(signed.token) == {"alg": "ES256", "kid": signed.kid, "typ": "JWT"}
    assert json.loads(jws.get_unverified_claims(str(signed.sign()["executor_jwt"])))["jti"] != claims["jti"]


@under_either_key
@given(st.integers(0, len(CURRENT.token) - 1), st.sampled_from(string.ascii_letters + string.digits + "-_.=+/ é"))
def test_no_character_of_a_token_can_be_changed(signed: Signed, at: int, character: str) -> None:
    assume(signed.token[at] != character)
    assert (
        refusal({**signed.job, "executor_jwt": signed.token[:at] + character + signed.token[at + 1 :]})
        == "job_token_invalid"
    )


@under_either_key
@pytest.mark.parametrize("name", sorted(PAYLOAD))
@pytest.mark.parametrize("value", ["changed", 7, None, {}, ...])
def test_no_field_of_a_signed_job_can_be_changed_or_removed(signed: Signed, name: str, value: object) -> None:
    job = {field: content for field, content in {**signed.job, name: value}.items() if content is not ...}
    assert refusal(job) == "job_payload_mismatch"


@under_either_key
@given(st.text().filter(lambda name: name not in CURRENT.job), st.none() | st.integers(0, 9) | st.text())
def test_no_field_can_be_added_to_a_signed_job(signed: Signed, name: str, value: object) -> None:
    assert refusal({**signed.job, name: value}) == "job_payload_mismatch"


@under_either_key
def test_the_order_of_keys_does_not_matter(signed: Signed) -> None:
    VERIFIER.verify(dict(reversed(signed.job.items())), NOW)


@under_either_key
def test_a_job_cannot_carry_the_token_of_another(signed: Signed) -> None:
    other = signed.sign({**PAYLOAD, "run_id": "run-2", "job_id": "run-2.1"})
    assert refusal({**other, "executor_jwt": signed.token}) == "job_payload_mismatch"


@under_either_key
@pytest.mark.parametrize(
    "token", [None, 5, "", "a.b", "a.b.c", "x" * 20000, f"{CURRENT.token}.", PREVIOUS.token.encode()]
)
def test_what_is_no_token_is_refused(signed: Signed, token: object) -> None:
    assert refusal({**signed.job, "executor_jwt": token}) == "job_token_invalid"
    assert refusal({name: value for name, value in signed.job.items() if name != "executor_jwt"}) == "job_token_invalid"


@under_either_key
def test_only_the_pinned_algorithm_and_the_keys_own_signature_are_accepted(signed: Signed) -> None:
    claims = json.loads(jws.get_unverified_claims(signed.token))
    body = encoded(json.dumps(claims).encode())
    unsigned = encoded(f'{{"alg":"none","kid":"{signed.kid}"}}'.encode())
    forged = [
        f"{unsigned}.{body}.AAAA",
        jws.sign(claims, "secret", headers={"kid": signed.kid}, algorithm="HS256"),
        google_token(claims, kid=signed.kid),
        signed.resign(pair("third").keys.private_pem),
    ]
    for token in forged:
        with pytest.raises(JobRefused) as raised:
            VERIFIER.verify_token(token, NOW)
        assert raised.value.code == "job_token_invalid"


@pytest.mark.parametrize(("signed", "other"), [(CURRENT, PREVIOUS), (PREVIOUS, CURRENT)], ids=["current", "previous"])
def test_a_token_is_checked_with_the_key_that_it_names_and_with_no_other(signed: Signed, other: Signed) -> None:
    with pytest.raises(JobRefused, match="signature") as raised:
        VERIFIER.verify_token(signed.resign(kid=other.kid), NOW)
    assert raised.value.code == "job_token_invalid"


@under_either_key
@pytest.mark.parametrize("kid", ["k3", "K1", " k1", "k1 ", "", None, 1, True, ["k1"], {"k1": "k2"}, ...], ids=repr)
def test_a_token_that_names_none_of_the_keys_is_refused(signed: Signed, kid: object) -> None:
    headers = {} if kid is ... else {"kid": kid}
    token = jws.sign(
        json.loads(jws.get_unverified_claims(signed.token)), signed.key, headers=headers, algorithm="ES256"
    )
    with pytest.raises(JobRefused, match="'k1' or 'k2'") as raised:
        VERIFIER.verify_token(token, NOW)
    assert raised.value.code == "job_token_invalid"


def test_without_a_second_key_its_tokens_are_those_of_a_stranger() -> None:
    alone = JobVerifier(FIRST.keys.public_pem, "k1")
    assert alone.verify_token(CURRENT.token, NOW).run_id == "run-1"
    with pytest.raises(JobRefused, match="the key 'k1'") as raised:
        alone.verify_token(PREVIOUS.token, NOW)
    assert raised.value.code == "job_token_invalid"


def test_a_second_key_never_takes_the_place_of_the_first() -> None:
    """The settings refuse one id for two keys; here it is harmless."""
    confused = JobVerifier(FIRST.keys.public_pem, "k1", PreviousKey(SECOND.public, "k1"))
    assert confused.verify_token(CURRENT.token, NOW).run_id == "run-1"


@under_either_key
@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "flow-like"), ("iss", ...), ("aud", "other"), ("aud", ["holdfast-executor"]), ("typ", "user"),
        ("typ", ...), ("sub", ""), ("run_id", 5), ("jti", ...), ("dispatch_hash", ...), ("exp", ...),
        ("exp", "1790000000"), ("exp", True), ("exp", 1e30), ("iat", ...), ("iat", -1), ("nbf", ...),
        ("callback_url", None),
    ],
)  # fmt: skip
def test_a_claim_that_is_missing_or_of_another_kind_is_refused(signed: Signed, claim: str, value: Any) -> None:
    changes: dict[str, Any] = {claim: value}
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify_token(signed.resign(**changes), NOW)
    assert raised.value.code == "job_token_invalid"


@under_either_key
def test_a_clock_that_is_minutes_slow_refuses_no_genuine_job_and_a_token_of_later_is_refused(signed: Signed) -> None:
    begins = NOW.replace(microsecond=0) - timedelta(minutes=5, seconds=30)
    VERIFIER.verify(signed.job, begins)
    assert refusal(signed.job, begins - timedelta(seconds=1)) == "job_token_invalid"


@under_either_key
@pytest.mark.parametrize("claim", MATCHED)
def test_a_claim_that_differs_from_the_job_is_refused(signed: Signed, claim: str) -> None:
    assert refusal({**signed.job, "executor_jwt": signed.resign(**{claim: "other"})}) == "job_payload_mismatch"


@under_either_key
def test_a_token_lives_for_its_life_and_the_clocks_difference(signed: Signed) -> None:
    end = NOW.replace(microsecond=0) + timedelta(hours=1)
    VERIFIER.verify(signed.job, end + timedelta(seconds=30))
    assert refusal(signed.job, end + timedelta(seconds=31)) == "job_token_expired"


@pytest.mark.parametrize("name", MATCHED)
def test_nothing_is_signed_that_could_not_be_matched(name: str) -> None:
    with pytest.raises(JobRefused, match=name):
        CURRENT.sign({**PAYLOAD, name: ""})
    with pytest.raises(JobRefused, match="subject"):
        CURRENT.sign(subject="")


def test_nothing_is_signed_that_could_not_be_hashed_again() -> None:
    with pytest.raises(PayloadNotCanonical):
        CURRENT.sign({**PAYLOAD, "payload": 2**60})


@under_either_key
def test_a_job_that_cannot_be_hashed_is_a_mismatch(signed: Signed) -> None:
    assert refusal({**signed.job, "payload": 2**60}) == "job_payload_mismatch"


@pytest.mark.parametrize("pem", ["", "text", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_a_key_that_is_none_is_refused_at_once(pem: str) -> None:
    with pytest.raises(UnusableKey):
        JobSigner(pem, "k1")
    with pytest.raises(UnusableKey):
        JobVerifier(pem, "k1")
    with pytest.raises(UnusableKey):
        JobVerifier(FIRST.keys.public_pem, "k1", PreviousKey(environment_value(pem), "k2"))


@under_either_key
def test_an_error_repeats_nothing_of_the_token(signed: Signed) -> None:
    with pytest.raises(JobRefused) as raised:
        VERIFIER.verify_token(signed.token[:-2], NOW)
    assert signed.token[:20] not in str(raised.value)
