"""Who holds a key: checked against the bootstrap keys of the settings, then the stored ones."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from runtime.api.api_key import Caller, PresentedKey, Scope, key_of, parse_key, read_key
from runtime.api.bearer import bearer_token
from runtime.api.problem import Problem
from runtime.api.run_store import CALL_SECONDS
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents

CACHE_SECONDS: Final = 30
"""How long a stored key is trusted unread; a revocation reaches every instance within this."""
CACHE_KEYS: Final = 1000

_NO_HASH: Final = "0" * 64


class KeyRing:
    """Verifies API keys.

    Args:
        bootstrap: name -> SHA-256 (lower case hex) of the secret part; these keys have the ADMIN scope, and a stored
            key of the same name is not looked at.
        documents: where the other keys are.
        clock: for the age of what is cached.
    """

    def __init__(self, bootstrap: Mapping[str, str], documents: Documents, clock: Clock) -> None:
        self._bootstrap = bootstrap
        self._documents = documents
        self._clock = clock
        self._cache: OrderedDict[PresentedKey, tuple[float, Caller]] = OrderedDict()

    async def verify(self, authorization: list[bytes], scope: Scope) -> Caller:
        """The holder of the key in a request's Authorization headers.

        Raises:
            Problem: 401 `api_key_invalid`, 403 `scope_missing`.
            StoreUnavailable
        """
        token = bearer_token(authorization)
        presented = None if token is None else parse_key(token)
        caller = None if presented is None else await self._holder(presented)
        if caller is None:
            raise Problem(
                401,
                "api_key_invalid",
                "send one header `Authorization: Bearer hf_NAME_SECRET` with a key that is not revoked",
                headers={"WWW-Authenticate": 'Bearer realm="holdfast"'},
            )
        if not caller.may(scope):
            raise Problem(403, "scope_missing", f"the key {caller.name} has not the scope `{scope}`")
        return caller

    def has_bootstrap(self, name: str) -> bool:
        """Whether a name belongs to a key of the settings."""
        return name in self._bootstrap

    def forget(self, name: str) -> None:
        """Drops what is cached of a key that was revoked here."""
        for presented in [presented for presented in self._cache if presented.name == name]:
            del self._cache[presented]

    async def _holder(self, presented: PresentedKey) -> Caller | None:
        bootstrap = self._bootstrap.get(presented.name)
        if bootstrap is not None:
            same = hmac.compare_digest(bootstrap, presented.hash)
            return Caller(presented.name, frozenset({Scope.ADMIN})) if same else None
        cached = self._cache.get(presented)
        if cached is not None and self._clock.monotonic() < cached[0]:
            return cached[1]
        document = await self._documents.get(key_of(presented.name), timeout=CALL_SECONDS)
        record = None if document is None else read_key(document.data)
        # Compared in every case, so that the time of an answer tells nothing about a hash.
        same = hmac.compare_digest(_NO_HASH if record is None else record.hash, presented.hash)
        if record is None or not same or record.revoked_at is not None:
            return None
        caller = Caller(presented.name, frozenset(record.scopes))
        self._cache[presented] = self._clock.monotonic() + CACHE_SECONDS, caller
        while len(self._cache) > CACHE_KEYS:
            self._cache.popitem(last=False)
        return caller
