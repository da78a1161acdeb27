"""The HTTP client of the executor: one job, one connection, one stream of events back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import aiohttp
from aiohttp import hdrs
from yarl import URL

from runtime.api.executor_errors import ExecutorBroken, ExecutorRefused, ExecutorUnavailable
from runtime.api.executor_messages import Message, MessageReader
from runtime.ports.clock import Clock
from runtime.ports.tokens import Tokens, TokenUnavailable
from runtime.ports.tracing import carried

PATH: Final = "/execute/sse"
"""Of the executor's three forms the one that shows signs of life, and whose run goes on when the API is replaced."""
CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 150.0
"""Longest wait for the answer's head: the platform holds a call while it starts an instance."""
SILENCE_SECONDS: Final = 45.0
"""Longest silence in a stream, three of the executor's signs of life; then its connection is taken for dead."""
PROBLEM_BYTES: Final = 16 * 1024
"""Most that is read of a refusal."""

_NOT_TAKEN: Final = frozenset({"draining", "too_many_runs"})
"""What an executor says with 503 before it has begun anything."""


class ExecutorStream:
    """The events of one job. It ends where the executor ends it; only `completed` says that the run has ended.

    Args:
        content: of the answer.
        clock: for the bounds.
        ends_at: monotonic time after which it is taken for broken.
    """

    def __init__(self, content: aiohttp.StreamReader, clock: Clock, ends_at: float) -> None:
        self._content = content
        self._clock = clock
        self._ends_at = ends_at
        self._reader = MessageReader()

    async def some(self) -> list[Message]:
        """The next messages, as soon as there are any; none at the end.

        Raises:
            ExecutorBroken
        """
        while chunk := await self._chunk():
            messages = self._reader.feed(chunk)
            if messages:
                return messages
        return []

    async def _chunk(self) -> bytes:
        seconds = min(SILENCE_SECONDS, self._ends_at - self._clock.monotonic())
        try:
            async with self._clock.timeout(seconds):
                return await self._content.readany()
        except TimeoutError:
            raise ExecutorBroken("the executor's stream was silent, or did not end, for too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ExecutorBroken(f"the executor's stream broke: {type(error).__name__}") from error


class ExecutorClient:
    """Calls the executor of a deployment, as the service account that the process runs as.

    Args:
        session: of the process; its own limits are not used.
        url: the executor's address; its origin is the audience of the tokens.
        tokens: of the process; they are cached there.
        clock: for every bound.
        version: of this program, for the User-Agent.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, tokens: Tokens, clock: Clock, *, version: str) -> None:
        self._session = session
        self._url = URL(url).origin()
        self._tokens = tokens
        self._clock = clock
        self._headers: dict[str, str] = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT: "text/event-stream",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: f"holdfast-api/{version}",
            # On a kept connection nobody could tell one that had gone stale from a job that was lost on its way.
            hdrs.CONNECTION: "close",
        }

    @asynccontextmanager
    async def opened(self, job: bytes, longest: timedelta) -> AsyncIterator[ExecutorStream]:
        """Sends a job; the stream of its events, once the executor has taken it. Leaving closes the connection.

        Args:
            job: signed and encoded.
            longest: after which a stream that still goes on is taken for broken.

        Raises:
            ExecutorUnavailable, ExecutorRefused, ExecutorBroken
        """
        try:
            token = await self._tokens.id_token(str(self._url))
        except TokenUnavailable as error:
            raise ExecutorUnavailable(f"no token for the executor: {error}") from error
        ends_at = self._clock.monotonic() + longest.total_seconds()
        response = await self._answered(job, token)
        async with response:
            await self._check(response)
            yield ExecutorStream(response.content, self._clock, ends_at)

    async def _answered(self, job: bytes, token: str) -> aiohttp.ClientResponse:
        headers = {**self._headers, hdrs.AUTHORIZATION: f"Bearer {token}", **carried()}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with self._clock.timeout(ANSWER_SECONDS):
                return await self._session.post(
                    self._url / PATH[1:], data=job, headers=headers, timeout=timeout, allow_redirects=False
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ExecutorUnavailable(f"no connection to the executor: {type(error).__name__}") from error
        except TimeoutError:
            raise ExecutorBroken(f"the executor did not answer within {ANSWER_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ExecutorBroken(
                f"the connection to the executor broke before it answered: {type(error).__name__}"
            ) from error

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status == 200 and response.content_type == "text/event-stream":
            return
        code, detail = await self._problem(response)
        text = f"the executor answered {status} {code}: {detail}"
        if status == 429 or (status == 503 and code in _NOT_TAKEN):
            raise ExecutorUnavailable(text)
        if 400 <= status < 500:
            raise ExecutorRefused(text)
        raise ExecutorBroken(text)

    async def _problem(self, response: aiohttp.ClientResponse) -> tuple[str, str]:
        """Code and detail of a refusal; of the platform's own there is neither."""
        try:
            async with self._clock.timeout(SILENCE_SECONDS):
                body = json.loads(await _start(response.content))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return "without a code", "not the executor's own words; see the service's log and its invokers"
        return str(body.get("code"))[:64], str(body.get("detail"))[:300]


async def _start(content: aiohttp.StreamReader) -> bytes:
    try:
        return await content.readexactly(PROBLEM_BYTES)
    except asyncio.IncompleteReadError as error:
        return error.partial
