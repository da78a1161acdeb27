"""Tokens whose signature was found good, so that a retried delivery costs no second RSA operation."""

from __future__ import annotations

from collections import OrderedDict

from jose.backends.base import Key


class VerifiedTokens:
    """A bounded memory of valid tokens, by the whole token; nothing is kept of those that failed.

    Args:
        capacity: most tokens kept; the oldest goes first.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._tokens: OrderedDict[str, tuple[Key, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def holds(self, token: str, key: Key, now: float) -> bool:
        """Whether this very key verified this very token, and the token is not over."""
        found = self._tokens.get(token)
        if found is None or found[0] is not key:
            return False
        if found[1] < now:
            del self._tokens[token]
            return False
        return True

    def add(self, token: str, key: Key, until: float) -> None:
        """Keeps a token that `key` verified; `until` is when it is over."""
        self._tokens[token] = (key, until)
        self._tokens.move_to_end(token)
        while len(self._tokens) > self._capacity:
            self._tokens.popitem(last=False)
