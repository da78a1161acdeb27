"""Tokens as Google signs them, and a key server that counts, hangs and fails to order."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from runtime.ports.tokens import TokenUnavailable

Jwk = dict[str, object]

KEY_BITS = 2048


@cache
def rsa_key(name: str, bits: int) -> rsa.RSAPrivateKey:
    """The RSA key of a name and a size; the same in every test."""
    del name  # the cache's key
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def encoded(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def public_jwk(name: str, *, bits: int = KEY_BITS, **changes: object) -> Jwk:
    """The public half of `rsa_key` as the key server gives it; a change to None removes a member."""
    numbers = rsa_key(name, bits).public_key().public_numbers()
    jwk: Jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": name, **changes}
    jwk.setdefault("n", encoded(numbers.n.to_bytes(bits // 8, "big")))
    jwk.setdefault("e", encoded(numbers.e.to_bytes(3, "big")))
    return {member: value for member, value in jwk.items() if value is not None}


def google_token(claims: Mapping[str, Any], *, kid: str = "a", key: str | None = None, **header: Any) -> str:
    """A token signed by the key `key`, else by the one that `kid` names; claims and members of `...` are left out."""
    members = {"alg": "RS256", "kid": kid, "typ": "JWT", **header}
    parts = (
        encoded(json.dumps({name: value for name, value in part.items() if value is not ...}).encode())
        for part in (members, claims)
    )
    signed = ".".join(parts)
    signature = rsa_key(key or kid, KEY_BITS).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{encoded(signature)}"


@dataclass
class KeyServer:
    """A key source.

    Attributes:
        keys: what is served.
        fetches: how often it was asked.
        failing: answers are errors.
        hanging: set to let a hanging fetch go on; None does not hang.
    """

    keys: dict[str, Jwk] = field(default_factory=lambda: {"a": public_jwk("a")})
    fetches: int = 0
    failing: bool = False
    hanging: asyncio.Event | None = None

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        """See KeySource."""
        self.fetches += 1
        if self.hanging is not None:
            await self.hanging.wait()
        if self.failing:
            raise TokenUnavailable("the key server is away")
        return dict(self.keys)
