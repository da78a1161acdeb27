"""The public keys that push tokens are signed with: loaded at start, refreshed ahead of time, kept through outages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import structlog

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.names import KEYS_NOT_REFRESHED
from runtime.identity.signatures import JOSEError, Key, jwk
from runtime.ports.clock import Clock
from runtime.ports.tokens import KeySource, TokenUnavailable

ALGORITHM: Final = "RS256"
LIFETIME: Final = 3600
"""Seconds for which fetched keys are good."""
REFRESH_AGE: Final = 1800
"""Age, seconds, at which they are fetched anew: only an outage longer than the rest of the hour is felt."""
PAUSE: Final = 60
"""Least seconds between two fetches, whatever came of the first: unknown key ids cannot cause more."""
FETCH_LIMIT: Final = 10
"""Longest fetch, seconds."""
KEY_BITS_MIN: Final = 2048
"""RFC 7518 section 3.3."""

log = structlog.get_logger()


class KeySetUnavailable(HoldfastError):
    """The keys are unknown or too old and new ones cannot be had now; nothing is said about the token."""

    code = "push_key_set_unavailable"
    decision = Decision.RETRY


class KeyCache:
    """Keys by their id.

    Known and fresh keys are answered without waiting, also while a fetch hangs; a failed fetch removes nothing.
    There is one fetch at a time.

    Args:
        source: where the keys are fetched.
        clock: time.
        grace: how long known keys are used beyond their hour while new ones cannot be fetched; 0: not.
    """

    def __init__(self, source: KeySource, clock: Clock, grace: timedelta = timedelta()) -> None:
        self._source = source
        self._clock = clock
        self._limit = LIFETIME + grace.total_seconds()
        self._keys: Mapping[str, Key] = MappingProxyType({})
        self._raw: Mapping[str, Mapping[str, object]] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._tried_well = False
        self._fetching = asyncio.Lock()

    @property
    def age(self) -> float | None:
        """Seconds since the last successful fetch; None before the first."""
        return None if self._fetched_at is None else self._clock.monotonic() - self._fetched_at

    @property
    def in_grace(self) -> bool:
        """Whether the keys are past their hour and still in use."""
        return self.age is not None and LIFETIME < self.age <= self._limit

    async def load(self) -> None:
        """The fetch of the start.

        Raises:
            KeySetUnavailable
        """
        await self._refresh()
        if not self._usable:
            raise KeySetUnavailable("the keys of the push tokens could not be fetched at the start")

    async def run(self) -> None:
        """Keeps the keys fresh until it is cancelled; the app that owns the cache owns this task."""
        while True:
            await self._clock.sleep(self._until_refresh())
            await self._refresh()

    async def key(self, kid: str) -> Key | None:
        """The key of an id; None where the key set is fresh and has no such key.

        Raises:
            KeySetUnavailable
        """
        found = self.known(kid)
        if found is not None:
            return found
        await self._refresh()
        if not self._usable or (not self._tried_well and kid not in self._keys):
            raise KeySetUnavailable(
                "the keys of the push tokens cannot be fetched now, and the known ones do not answer for this token"
            )
        return self._keys.get(kid)

    def known(self, kid: str) -> Key | None:
        """The key of an id as far as it is known and fresh; nothing is fetched for it."""
        fetched_at = self._fetched_at
        if fetched_at is None or self._clock.monotonic() - fetched_at > self._limit:
            return None
        return self._keys.get(kid)

    @property
    def _usable(self) -> bool:
        age = self.age
        return age is not None and age <= self._limit

    def _until_refresh(self) -> float:
        due = 0.0 if self.age is None else REFRESH_AGE - self.age
        return max(due, self._pause_left(), 0.0)

    def _pause_left(self) -> float:
        return 0.0 if self._tried_at is None else self._tried_at + PAUSE - self._clock.monotonic()

    async def _refresh(self) -> None:
        """One fetch, unless there was one inside the pause: also by who held the lock meanwhile."""
        async with self._fetching:
            if self._pause_left() > 0:
                return
            self._tried_at, self._tried_well = self._clock.monotonic(), False
            try:
                async with self._clock.timeout(FETCH_LIMIT):
                    raw = await self._source.fetch()
            except (TokenUnavailable, TimeoutError) as error:
                self._tell(str(error) or "timeout")
                return
            self._accept(raw)

    def _accept(self, raw: Mapping[str, Mapping[str, object]]) -> None:
        # A key that did not change stays the same object: tokens that it verified stay verified.
        keys = {
            kid: self._keys[kid] if kid in self._keys and self._raw.get(kid) == entry else key
            for kid, entry in raw.items()
            if (key := _usable_key(entry)) is not None
        }
        if not keys:
            self._tell("no usable key in the set")
            return
        self._raw, self._keys = dict(raw), MappingProxyType(keys)
        self._fetched_at, self._tried_well = self._clock.monotonic(), True
        log.info("push_keys_refreshed", key_count=len(keys))

    def _tell(self, reason: str) -> None:
        """A fetch that brought nothing; `age` is seconds, and what an alert compares."""
        log.warning(KEYS_NOT_REFRESHED, reason=reason, age=self.age, grace=self.in_grace)


def _usable_key(entry: Mapping[str, object]) -> Key | None:
    """The key of a JWK that signs with RS256; None for every other."""
    modulus, exponent = entry.get("n"), entry.get("e")
    if (
        entry.get("kty") != "RSA"
        or entry.get("alg", ALGORITHM) != ALGORITHM
        or entry.get("use", "sig") != "sig"
        or not isinstance(modulus, str)
        or not isinstance(exponent, str)
        or len(modulus) * 6 < KEY_BITS_MIN
    ):
        return None
    try:
        # Only the public parts: whatever else is in the set is not wanted here.
        return jwk.construct({"kty": "RSA", "n": modulus, "e": exponent}, algorithm=ALGORITHM)
    except (JOSEError, ValueError, TypeError):
        return None
