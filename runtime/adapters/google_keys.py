"""Google's public signing keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import aiohttp

from runtime.adapters.http_body import BodyTooLong, read_body
from runtime.contract.names import GOOGLE_KEYS_URL
from runtime.ports.tokens import TokenUnavailable

CONNECT_SECONDS: Final = 3
TOTAL_SECONDS: Final = 10
BODY_BYTES: Final = 128 * 1024
"""Google's set has about 3 KiB; whatever is larger is not a key set."""

_TIMEOUT: Final = aiohttp.ClientTimeout(total=TOTAL_SECONDS, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS)


class GoogleKeySource:
    """Fetches the key set from its one address, once a call.

    Args:
        session: made with `trust_env=False`; it stays the caller's.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        """See KeySource."""
        try:
            async with self._session.get(GOOGLE_KEYS_URL, timeout=_TIMEOUT, allow_redirects=False) as response:
                if response.status != 200:
                    raise TokenUnavailable(f"{GOOGLE_KEYS_URL} answered {response.status}")
                body = await read_body(response, BODY_BYTES)
        except (aiohttp.ClientError, OSError, BodyTooLong) as error:
            raise TokenUnavailable(f"{GOOGLE_KEYS_URL}: {type(error).__name__}: {error}") from error
        keys = _keys(body)
        if not keys:
            raise TokenUnavailable(f"{GOOGLE_KEYS_URL} gave no set of keys")
        return keys


def _keys(body: bytes) -> dict[str, dict[str, object]]:
    """Key id -> JWK; empty where the body is anything else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        return {}
    return {row["kid"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("kid"), str) and row["kid"]}
