"""One POST to a push endpoint."""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp.client_reqrep import ClientResponse
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError

from runtime.contract.errors import Decision, HoldfastError
from sandbox.network import Hosts, LoopbackConnector

ACKNOWLEDGING: Final = frozenset({102, 200, 201, 202, 204})
"""Pub/Sub: the only statuses that acknowledge a push."""
CONNECT_SECONDS: Final = 10.0
_PROCESSING: Final = 102
_SPARE_SECONDS: Final = 5.0
"""The caller's clock ends a push at its ack deadline; this far behind it, the client's own limit does."""


class PushFailed(HoldfastError):
    """A push that got no answer."""

    code = "push_failed"
    decision = Decision.RETRY


class _Processing(Exception):
    """The answer was 102."""


class _PushResponse(ClientResponse):
    """Takes 102 as an answer, as Pub/Sub does; aiohttp would go on waiting for the one after it."""

    async def start(self, connection: Connection) -> ClientResponse:
        protocol = connection.protocol
        if protocol is not None:
            first = await protocol.read()
            if first[0].code == _PROCESSING:
                raise _Processing
            protocol._buffer.appendleft((first, 0))  # noqa: SLF001 - put back for the method below
        return await super().start(connection)


class Endpoints:
    """Posts to the hosts of this sandbox. Redirects are not followed, cookies and proxies not used.

    Args:
        hosts: where the endpoints are.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Call it inside the loop, once."""
        self._session = aiohttp.ClientSession(
            connector=LoopbackConnector(self._hosts),
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_PushResponse,
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, url: str, token: str | None, body: bytes, seconds: float) -> int:
        """Posts JSON and returns the status; the answer's body is not read.

        Args:
            url: https address.
            token: sent as bearer token; None sends none.
            body: JSON.
            seconds: how long the caller waits; the client's own limit is a little behind it.

        Raises:
            PushFailed: not connected, cut off, or not HTTP.
        """
        if self._session is None:
            raise PushFailed("the push client is closed")
        headers = {"Content-Type": "application/json", "User-Agent": "CloudPubSub-Google"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        limits = aiohttp.ClientTimeout(total=seconds + _SPARE_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=limits, allow_redirects=False
            ) as response:
                return response.status
        except _Processing:
            return _PROCESSING
        except (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError) as error:
            raise PushFailed(f"{url} gave no answer: {type(error).__name__}: {error}") from error
