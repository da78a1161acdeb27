"""Tokens of the process's own service account, from the platform's metadata server."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
import structlog
from msgspec import Struct
from msgspec.structs import replace

from runtime.adapters.http_body import BodyTooLong, read_body
from runtime.contract.names import METADATA_URL
from runtime.ports.clock import Clock
from runtime.ports.tokens import TokenUnavailable

log = structlog.get_logger()

REFRESH_SECONDS: Final = 225
"""A token is renewed when it has this long to live: the server itself gives a new one only in the last 300 s."""
REUSE_SECONDS: Final = 60
"""A token is used at least this long, however short it lives, so that no call in between asks the server."""
LEAST_SECONDS: Final = 30
"""A token with less to live is never handed out."""
TRIES: Final = 3
TRY_DELAY: Final = 0.25
"""Seconds, times the number of tries so far."""
CONNECT_SECONDS: Final = 2
TOTAL_SECONDS: Final = 5
"""Of one try."""
BODY_BYTES: Final = 16 * 1024

_ACCOUNT: Final = f"{METADATA_URL}/instance/service-accounts/default"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_TIMEOUT: Final = aiohttp.ClientTimeout(total=TOTAL_SECONDS, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS)
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class _Token(Struct, frozen=True):
    """A token and its times on the monotonic clock."""

    value: str
    ends: float
    refresh_at: float

    def __repr__(self) -> str:
        return f"_Token(ends={self.ends!r}, refresh_at={self.refresh_at!r})"


class _Unusable(Exception):
    """One try failed; the text never holds anything of the body."""


Fetch = Callable[[], Awaitable[tuple[str, float]]]
"""One request: the token and the seconds that it lives."""


class MetadataTokens:
    """Access and ID tokens, cached; whoever asks while one is being fetched waits for that same one.

    A failed renewal hands out the known token as long as it has 30 s to live.

    Args:
        session: made with `trust_env=False`; it stays the caller's.
        clock: for expiry and for the waits between tries.
    """

    def __init__(self, session: aiohttp.ClientSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._fetching: dict[tuple[str, str], asyncio.Future[str]] = {}

    async def access_token(self, scope: str) -> str:
        """See Tokens."""

        async def fetch() -> tuple[str, float]:
            document = _json(await self._read("token", {"scopes": scope}))
            lives = document.get("expires_in")
            if not isinstance(lives, int | float):
                raise _Unusable("the answer has no expires_in")
            return str(document.get("access_token", "")), float(lives)

        return await self._current(("access", scope), fetch)

    async def id_token(self, audience: str) -> str:
        """See Tokens. The token carries the account's e-mail."""

        async def fetch() -> tuple[str, float]:
            token = (await self._read("identity", {"audience": audience, "format": "full"})).decode("latin-1").strip()
            return token, _expiry(token) - self._clock.now().timestamp()

        return await self._current(("id", audience), fetch)

    async def _current(self, key: tuple[str, str], fetch: Fetch) -> str:
        while True:
            token = self._tokens.get(key)
            if token is not None and self._clock.monotonic() < token.refresh_at:
                return token.value
            fetching = self._fetching.get(key)
            if fetching is None:
                return await self._fetch_for_all(key, fetch)
            await asyncio.wait([fetching])
            # Cancelled with the caller that was fetching: someone else takes over.
            if not fetching.cancelled():
                return fetching.result()

    async def _fetch_for_all(self, key: tuple[str, str], fetch: Fetch) -> str:
        fetching: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._fetching[key] = fetching
        try:
            value = await self._renewed(key, fetch)
        except TokenUnavailable as error:
            fetching.set_exception(error)
            fetching.exception()  # Nobody else may be waiting, and an error that nobody reads is reported.
            raise
        else:
            fetching.set_result(value)
            return value
        finally:
            del self._fetching[key]
            fetching.cancel()

    async def _renewed(self, key: tuple[str, str], fetch: Fetch) -> str:
        failure = ""
        for number in range(1, TRIES + 1):
            try:
                token = await self._once(fetch)
            except (_Unusable, BodyTooLong, aiohttp.ClientError, OSError) as error:
                failure = f"{type(error).__name__}: {error}"
            else:
                self._tokens[key] = token
                return token.value
            if number < TRIES:
                await self._clock.sleep(TRY_DELAY * number)
        known, now = self._tokens.get(key), self._clock.monotonic()
        if known is not None and now < known.ends - LEAST_SECONDS:
            log.warning("token_renewal_failed", kind=key[0], subject=key[1], error=failure, seconds=known.ends - now)
            self._tokens[key] = replace(known, refresh_at=min(now + REUSE_SECONDS, known.ends - LEAST_SECONDS))
            return known.value
        raise TokenUnavailable(f"no {key[0]} token for {key[1]} after {TRIES} tries: {failure}")

    async def _once(self, fetch: Fetch) -> _Token:
        asked = self._clock.monotonic()
        value, lives = await fetch()
        if not _TOKEN.fullmatch(value):
            raise _Unusable("the answer is not a token")
        if not LEAST_SECONDS <= lives < math.inf:
            raise _Unusable(f"the token lives {lives:.0f} s, less than {LEAST_SECONDS} s")
        ends = asked + lives
        return _Token(value, ends, min(max(ends - REFRESH_SECONDS, asked + REUSE_SECONDS), ends - LEAST_SECONDS))

    async def _read(self, what: str, query: dict[str, str]) -> bytes:
        async with self._session.get(
            f"{_ACCOUNT}/{what}", params=query, headers=_FLAVOR, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            # Without it the answer is of somebody else who listens at that address.
            if response.headers.get("Metadata-Flavor") != "Google":
                raise _Unusable(f"the answer {response.status} lacks the header Metadata-Flavor: Google")
            body = await read_body(response, BODY_BYTES)
            if response.status != 200:
                raise _Unusable(f"the metadata server answered {response.status}")
            return body


def _expiry(token: str) -> float:
    """`exp` of the process's own token; its signature is for others to check."""
    parts = token.split(".")
    if len(parts) != 3:
        raise _Unusable("the answer is not a JWT")
    try:
        claims = _json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError as error:
        raise _Unusable("the token's claims are not base64") from error
    expiry = claims.get("exp")
    if not isinstance(expiry, int | float):
        raise _Unusable("the token has no exp")
    return float(expiry)


def _json(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _Unusable("the answer is not a JSON object")
    return document
