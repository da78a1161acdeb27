"""The memory of tokens that were verified."""

from __future__ import annotations

from typing import Any

from jose import jwk

from runtime.identity.verified_tokens import Verified, VerifiedTokens
from tests.support.google_tokens import public_jwk

KEY = jwk.construct(public_jwk("a"), algorithm="RS256")


def verified(**changes: Any) -> Verified:
    return Verified(**{"kid": "a", "key": KEY, "audience": "us", "begins": 10, "until": 100, **changes})


def test_a_token_is_known_by_all_of_its_header_and_for_its_audience() -> None:
    tokens, found = VerifiedTokens(), verified()
    tokens.add(b"Bearer token", found)
    assert tokens.find(b"Bearer token", "us", now=100) is found
    assert tokens.find(b"Bearer toke", "us", now=50) is None
    assert tokens.find(b"bearer token", "us", now=50) is None
    assert tokens.find(b"Bearer token", "them", now=50) is None


def test_a_token_is_forgotten_when_it_is_over_and_unknown_before_it_begins() -> None:
    tokens = VerifiedTokens()
    tokens.add(b"token", verified())
    assert tokens.find(b"token", "us", now=9) is None
    assert tokens.find(b"token", "us", now=10) is not None
    assert tokens.find(b"token", "us", now=100.5) is None
    assert len(tokens) == 0


def test_the_oldest_goes_when_there_are_too_many() -> None:
    tokens = VerifiedTokens(capacity=2)
    for name in (b"one", b"two", b"one", b"three"):
        tokens.add(name, verified())
    assert [tokens.find(name, "us", now=50) is not None for name in (b"one", b"two", b"three")] == [True, False, True]
    assert len(tokens) == 2
