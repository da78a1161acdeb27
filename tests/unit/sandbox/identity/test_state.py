"""Keys and tokens without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from jose import jwk, jwt

from sandbox.identity.state import SCOPE_ALL, AccessTokens, IdTokens, SigningKey, subject

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EMAIL = "push@p-test.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def test_an_id_token_carries_googles_claims(key: SigningKey) -> None:
    token = IdTokens(key).issue(EMAIL, "https://w.run.app", NOW)
    header, claims = jwt.get_unverified_header(token), jwt.get_unverified_claims(token)
    assert (header["alg"], header["kid"]) == ("RS256", key.kid)
    assert claims == {
        "aud": "https://w.run.app",
        "azp": subject(EMAIL),
        "email": EMAIL,
        "email_verified": True,
        "exp": int(NOW.timestamp()) + 3600,
        "iat": int(NOW.timestamp()),
        "iss": "https://accounts.google.com",
        "sub": subject(EMAIL),
    }


def test_the_public_key_verifies_what_the_private_key_signed(key: SigningKey) -> None:
    token = key.sign({"aud": "a"})
    public = jwk.construct(dict(key.jwk), "RS256")
    assert jwt.decode(token, public, algorithms=["RS256"], audience="a") == {"aud": "a"}
    assert key.jwk["use"] == "sig"
    assert "d" not in key.jwk, "the private half must never be served"


@pytest.mark.parametrize("token", ["", "a.b.c", "garbage", "é.é.é"])
def test_what_is_no_token_has_no_claims(key: SigningKey, token: str) -> None:
    assert key.claims(token) is None


def test_a_changed_or_foreign_token_has_no_claims(key: SigningKey) -> None:
    head, body, signature = key.sign({"email": EMAIL}).split(".")
    assert key.claims(f"{head}.{body}.{signature[:-8]}AAAAAAAA") is None
    assert key.claims(f"{head}.{body}.SIGNATURE_REMOVED_BY_GOOGLE") is None
    assert key.claims(SigningKey.generate().sign({"email": EMAIL})) is None
    assert key.claims(jwt.encode({"email": EMAIL}, "secret", headers={"kid": key.kid})) is None


def test_an_id_token_is_given_out_again_for_half_of_its_life(key: SigningKey) -> None:
    tokens = IdTokens(key)
    first = tokens.issue(EMAIL, "a", NOW)
    assert tokens.issue(EMAIL, "a", NOW + timedelta(minutes=29)) == first
    assert tokens.issue(EMAIL, "a", NOW + timedelta(minutes=30)) != first
    assert tokens.issue(EMAIL, "b", NOW) != first


def test_an_id_token_is_made_anew_when_the_clock_went_back(key: SigningKey) -> None:
    tokens = IdTokens(key)
    assert tokens.issue(EMAIL, "a", NOW) != tokens.issue(EMAIL, "a", NOW - timedelta(minutes=5))


def test_an_access_token_is_given_out_again_until_five_minutes_before_its_end() -> None:
    tokens, scopes = AccessTokens(), frozenset({SCOPE_ALL})
    first = tokens.issue(EMAIL, scopes, NOW)
    assert tokens.issue(EMAIL, scopes, NOW + timedelta(minutes=54)) is first
    later = tokens.issue(EMAIL, scopes, NOW + timedelta(minutes=55))
    assert later.value != first.value
    assert tokens.find(first.value, NOW + timedelta(minutes=59)) is first
    assert tokens.find(first.value, NOW + timedelta(minutes=60)) is None


def test_the_store_of_access_tokens_is_bounded_and_forgets_the_oldest() -> None:
    tokens = AccessTokens()
    first = tokens.issue("0@x", frozenset(), NOW)
    for number in range(1, 4097):
        tokens.issue(f"{number}@x", frozenset(), NOW)
    assert tokens.find(first.value, NOW) is None
    assert tokens.issue("0@x", frozenset(), NOW) is not first


def test_no_token_is_shown_in_a_representation() -> None:
    token = AccessTokens().issue(EMAIL, frozenset(), NOW)
    assert token.value not in repr(token)


def test_a_subject_is_a_number_of_21_digits_that_stays_the_same() -> None:
    assert subject(EMAIL) == subject(EMAIL)
    assert len(subject(EMAIL)) == 21
    assert subject(EMAIL).isdigit()
    assert subject("other@x") != subject(EMAIL)
