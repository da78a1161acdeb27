"""Tokens of the callers that Google vouches for: pushes, and the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from runtime.contract import names
from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.settings.words import PushAuth
from runtime.identity.compact_token import LEEWAY, TOKEN_MAX, CompactToken, TokenMalformed, numeric_date, parse_token
from runtime.identity.key_cache import ALGORITHM, KeyCache
from runtime.identity.signatures import Key
from runtime.identity.verified_tokens import Verified, VerifiedTokens
from runtime.ports.clock import Clock

LIFE_MAX: Final = 86400
"""Longest life of a token that is believed, seconds; Google's live for an hour."""

log = structlog.get_logger()


class PushRefused(HoldfastError):
    """A caller that is not the expected one. The text says what was wrong and repeats nothing of the token.

    Codes: `push_token_rejected`, `push_signature_stripped`.
    """

    code = "push_token_rejected"
    decision = Decision.REFUSED


class PushVerifier:
    """Accepts one identity, and only tokens made for one audience.

    Args:
        mode: PLATFORM accepts also a signature that the platform replaced after its own check; IN_PROCESS does not.
        service_account: e-mail of the one identity.
        keys: where Google's keys are.
        clock: time.
    """

    def __init__(self, mode: PushAuth, service_account: str, keys: KeyCache, clock: Clock) -> None:
        self._mode = mode
        self._service_account = service_account
        self._keys = keys
        self._clock = clock
        self._verified = VerifiedTokens()

    def knows(self, authorization: Sequence[bytes], audience: str) -> bool:
        """Whether `verify` would return without a look at the token: this very header was found good before."""
        if len(authorization) != 1:
            return False
        # Nothing that counted then may have changed.
        known = self._verified.find(authorization[0], audience, self._clock.timestamp())
        return known is not None and (known.key is None or self._keys.known(known.kid) is known.key)

    async def verify(self, authorization: Sequence[bytes], audience: str) -> None:
        """Returns where the request is from the expected identity.

        What costs nothing is checked first: form, then claims, then key and signature.

        Args:
            authorization: the raw values of every Authorization header of the request.
            audience: what the token must be made for; empty refuses all.

        Raises:
            PushRefused
            KeySetUnavailable: nothing can be said about the caller now.
        """
        if self.knows(authorization, audience):
            return
        now = self._clock.timestamp()
        try:
            token = parse_token(_bearer(authorization))
        except TokenMalformed as error:
            raise PushRefused(str(error)) from None
        kid = token.header.get("kid")
        if token.header.get("alg") != ALGORITHM or not isinstance(kid, str) or not kid:
            raise PushRefused(f"the token is not signed with {ALGORITHM}, or names no key")
        begins, until = _check_times(token.claims, now)
        self._check_claims(token.claims, audience)
        key = None
        if token.signature == names.STRIPPED_SIGNATURE:
            self._accept_stripped()
        else:
            key = await self._check_signature(token, kid)
        verified = Verified(kid=kid, key=key, audience=audience, begins=begins, until=until)
        self._verified.add(authorization[0], verified)

    async def _check_signature(self, token: CompactToken, kid: str) -> Key:
        key = await self._keys.key(kid)
        if key is None:
            raise PushRefused("the token is signed with a key that Google does not have")
        if not key.verify(token.signed, token.decoded_signature):
            raise PushRefused("the token's signature does not hold")
        return key

    def _accept_stripped(self) -> None:
        if self._mode is PushAuth.PLATFORM:
            return
        log.error(
            "push_signature_stripped",
            hint="the platform's invoker check is on while PUBSUB_PUSH_AUTH is in_process; turn one of them",
        )
        raise PushRefused(
            "the platform removed the token's signature; with in_process authentication its invoker check must be off",
            code="push_signature_stripped",
        )

    def _check_claims(self, claims: Mapping[str, object], audience: str) -> None:
        if not audience or claims.get("aud") != audience:
            raise PushRefused(f"the token is not made for {audience!r}")
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer not in names.GOOGLE_ISSUERS:
            raise PushRefused("the token is not issued by Google")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise PushRefused("the token has no subject")
        if claims.get("email_verified") is not True or claims.get("email") != self._service_account:
            raise PushRefused(f"the token is not that of {self._service_account}, or its e-mail is not verified")


def _check_times(claims: Mapping[str, object], now: float) -> tuple[float, float]:
    """From when to when the token is believed, where it is now."""
    issued, expires = numeric_date(claims, "iat"), numeric_date(claims, "exp")
    if issued is None or expires is None:
        raise PushRefused("the token has no iat, or no exp, that is a time")
    starts = numeric_date(claims, "nbf") if "nbf" in claims else issued
    if starts is None or max(issued, starts) > now + LEEWAY:
        raise PushRefused("the token is not valid yet")
    if expires < now - LEEWAY:
        raise PushRefused("the token has expired")
    if expires > now + LIFE_MAX:
        raise PushRefused(f"the token is valid for more than {LIFE_MAX} s, no token of Google is")
    return max(issued - LEEWAY, starts - LEEWAY, expires - LIFE_MAX), expires + LEEWAY


def _bearer(authorization: Sequence[bytes]) -> str:
    """The token of the one Authorization header.

    Raises:
        PushRefused
    """
    if len(authorization) != 1:
        raise PushRefused(f"the request has {len(authorization)} Authorization headers, it must have one")
    value = authorization[0]
    if len(value) > TOKEN_MAX or not value.isascii():
        raise PushRefused("the Authorization header is too long, or not ASCII")
    scheme, _, token = value.decode().partition(" ")
    if scheme.lower() != "bearer":
        raise PushRefused("the Authorization header is not a bearer token")
    return token
