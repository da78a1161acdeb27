"""The cheap half of reading a token: its form, before any key is looked up or any signature computed."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.strict_json import JsonError, parse_json

TOKEN_MAX: Final = 16 * 1024
"""Longest token that is looked at, characters; Google's are near 1000."""
LEEWAY: Final = 30
"""How far the clocks of two machines may be apart, seconds."""
TIME_MAX: Final = 2**40
"""Far beyond any date, and safe in every conversion."""

_TOKEN: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_DEPTH: Final = 8


class TokenMalformed(HoldfastError):
    """A text that is no token; the message repeats nothing of it."""

    code = "token_malformed"
    decision = Decision.REFUSED


class CompactToken(Struct, frozen=True):
    """A token as written, nothing of it verified.

    Attributes:
        text: the whole token.
        header: its first part.
        claims: its second part.
        signature: its third part, still encoded.
        decoded_signature: the bytes of it.
    """

    text: str
    header: Mapping[str, object]
    claims: Mapping[str, object]
    signature: str
    decoded_signature: bytes

    def __repr__(self) -> str:
        return f"CompactToken(header={self.header!r})"

    @property
    def signed(self) -> bytes:
        """What the signature is over: its first two parts as written."""
        return self.text[: -len(self.signature) - 1].encode()


def parse_token(text: str) -> CompactToken:
    """Reads a token of three parts.

    Each part has one spelling only: base64url whose unused bits are set is refused, so that no second text passes
    for the same token.

    Raises:
        TokenMalformed
    """
    match = _TOKEN.fullmatch(text) if len(text) <= TOKEN_MAX else None
    if match is None:
        raise TokenMalformed(f"a token is three parts of base64url and at most {TOKEN_MAX} characters")
    header, claims = _object(match[1], "header"), _object(match[2], "claims")
    signature = _decoded(match[3], "signature")
    if "crit" in header:
        raise TokenMalformed("the token's header has critical extensions, none is known here")
    return CompactToken(text, header, claims, match[3], signature)


def numeric_date(claims: Mapping[str, object], name: str) -> float | None:
    """A time claim, seconds since 1970; None where it is absent, or no number that a date could be."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < TIME_MAX else None


def _object(part: str, name: str) -> Mapping[str, object]:
    try:
        value = parse_json(_decoded(part, name), depth=_DEPTH)
    except JsonError as error:
        raise TokenMalformed(f"the token's {name} is {error}") from None
    if not isinstance(value, dict):
        raise TokenMalformed(f"the token's {name} is not an object")
    return value


def _decoded(part: str, name: str) -> bytes:
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenMalformed(f"the token's {name} is not base64url") from None
    if urlsafe_b64encode(decoded).rstrip(b"=").decode() != part:
        raise TokenMalformed(f"the token's {name} is not canonical base64url")
    return decoded
