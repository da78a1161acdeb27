"""What identity keeps: the signing key, and the tokens that it gave out."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jose import jwk, jws, jwt
from jose.backends.base import Key
from jose.exceptions import JOSEError

from runtime.contract.names import GOOGLE_ISSUERS

TOKEN_LIFE: Final = timedelta(hours=1)
"""Google: life of ID and access tokens."""
REUSE_MARGIN: Final = timedelta(minutes=5)
"""Google's metadata server hands the same token out until 5 minutes before its end."""
SCOPE_ALL: Final = "https://www.googleapis.com/auth/cloud-platform"
_KEPT: Final = 4096
"""Tokens of each kind that are remembered; the oldest go first."""
_ALGORITHM: Final = "RS256"


def subject(email: str) -> str:
    """The account's unique id: 21 digits, always the same for one e-mail, as Google's are."""
    return f"1{int(hashlib.sha256(email.encode()).hexdigest(), 16) % 10**20:020d}"


class SigningKey:
    """An RS256 key of 2048 bits with its key id."""

    def __init__(self, private_pem: str) -> None:
        self._private: Key = jwk.construct(private_pem, _ALGORITHM)
        public = self._private.public_key()
        self._public: Key = public
        numbers = public.to_dict()
        self.kid = hashlib.sha256(str(numbers["n"]).encode()).hexdigest()[:40]
        self.jwk: Mapping[str, str] = {
            "kid": self.kid, "kty": "RSA", "alg": _ALGORITHM, "use": "sig", "n": numbers["n"], "e": numbers["e"],
        }  # fmt: skip

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key. Takes up to a second of CPU: never call it on the event loop."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(pem.decode())

    def sign(self, claims: Mapping[str, object]) -> str:
        """A signed token with these claims."""
        return jwt.encode(dict(claims), self._private, algorithm=_ALGORITHM, headers={"kid": self.kid})

    def claims(self, token: str) -> Mapping[str, object] | None:
        """Claims of a token that this key signed; None for every other string. Times are not judged here."""
        try:
            if jws.get_unverified_header(token).get("kid") != self.kid:
                return None
            jws.verify(token, self._public, algorithms=[_ALGORITHM])
            claims: Mapping[str, object] = jwt.get_unverified_claims(token)
        except JOSEError:
            return None
        return claims


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An opaque token for Google's APIs.

    Attributes:
        value: the secret itself.
        email: whose it is.
        scopes: what it may be used for.
        expires: when it ends.
    """

    value: str = field(repr=False)
    email: str
    scopes: frozenset[str]
    expires: datetime


class AccessTokens:
    """The access tokens that are out, at most a few thousand."""

    def __init__(self) -> None:
        self._by_value: OrderedDict[str, AccessToken] = OrderedDict()
        self._latest: dict[tuple[str, frozenset[str]], AccessToken] = {}

    def issue(self, email: str, scopes: frozenset[str], now: datetime) -> AccessToken:
        """A token that lives for REUSE_MARGIN at least; the same one again while that holds."""
        known = self._latest.get((email, scopes))
        if known is not None and known.expires - now > REUSE_MARGIN:
            return known
        token = AccessToken(f"ya29.{secrets.token_urlsafe(48)}", email, scopes, now + TOKEN_LIFE)
        self._latest[email, scopes] = self._by_value[token.value] = token
        while len(self._by_value) > _KEPT:
            _, oldest = self._by_value.popitem(last=False)
            if self._latest.get((oldest.email, oldest.scopes)) is oldest:
                del self._latest[oldest.email, oldest.scopes]
        return token

    def find(self, value: str, now: datetime) -> AccessToken | None:
        """A token that is known and not over."""
        token = self._by_value.get(value)
        return token if token is not None and now < token.expires else None


class IdTokens:
    """ID tokens of one key, each kept for half its life: Google's push tokens too are used again and again."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self._kept: OrderedDict[tuple[str, str], tuple[datetime, str]] = OrderedDict()

    def issue(self, email: str, audience: str, now: datetime, age: timedelta = timedelta(0)) -> str:
        """A token of an account for one audience, valid for half an hour at least; a new one is of that age."""
        issued, token = self._kept.get((email, audience), (None, ""))
        if issued is not None and timedelta(0) <= now - issued < TOKEN_LIFE / 2:
            return token
        now -= age
        at = int(now.timestamp())
        token = self._key.sign(
            {
                "aud": audience,
                "azp": subject(email),
                "email": email,
                "email_verified": True,
                "exp": at + int(TOKEN_LIFE.total_seconds()),
                "iat": at,
                "iss": GOOGLE_ISSUERS[0],
                "sub": subject(email),
            }
        )
        self._kept[email, audience] = now, token
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return token
