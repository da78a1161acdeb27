"""The memory of tokens that were verified."""

from __future__ import annotations

from jose import jwk

from runtime.identity.verified_tokens import VerifiedTokens
from tests.support.google_tokens import public_jwk

KEY = jwk.construct(public_jwk("a"), algorithm="RS256")
SAME = jwk.construct(public_jwk("a"), algorithm="RS256")


def test_a_token_is_known_by_all_of_it_and_by_its_key() -> None:
    tokens = VerifiedTokens()
    tokens.add("token", KEY, until=100)
    assert tokens.holds("token", KEY, now=100)
    assert not tokens.holds("toke", KEY, now=0)
    assert not tokens.holds("token", SAME, now=0), "a key that was fetched anew verifies anew"


def test_a_token_is_forgotten_when_it_is_over() -> None:
    tokens = VerifiedTokens()
    tokens.add("token", KEY, until=100)
    assert not tokens.holds("token", KEY, now=100.5)
    assert len(tokens) == 0


def test_the_oldest_goes_when_there_are_too_many() -> None:
    tokens = VerifiedTokens(capacity=2)
    for name in ("one", "two", "one", "three"):
        tokens.add(name, KEY, until=100)
    assert [tokens.holds(name, KEY, now=0) for name in ("one", "two", "three")] == [True, False, True]
    assert len(tokens) == 2
