"""Tokens that were found good, so that the next delivery with one costs neither parsing nor an RSA operation."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from runtime.identity.signatures import Key


class Verified(Struct, frozen=True, kw_only=True):
    """What was found of a token, with everything that can change the verdict later.

    Attributes:
        kid: id of its key.
        key: the key that verified it; None where the platform had replaced the signature.
        audience: what it was made for.
        begins: seconds since 1970 from which it is valid.
        until: and at which it is over.
    """

    kid: str
    key: Key | None
    audience: str
    begins: float
    until: float


class VerifiedTokens:
    """A bounded memory of valid tokens, by the whole header that carried them; nothing is kept of those that failed.

    Args:
        capacity: most tokens kept; the oldest goes first.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._tokens: OrderedDict[bytes, Verified] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, header: bytes, audience: str, now: float) -> Verified | None:
        """What is known of this very header, if it is good for an audience now. Its key is the caller's to compare."""
        found = self._tokens.get(header)
        if found is None or found.audience != audience:
            return None
        if found.until < now:
            del self._tokens[header]
            return None
        return found if found.begins <= now else None

    def add(self, header: bytes, verified: Verified) -> None:
        """Keeps a token that was found good."""
        self._tokens[header] = verified
        self._tokens.move_to_end(header)
        while len(self._tokens) > self._capacity:
            self._tokens.popitem(last=False)
