"""The API as a command sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp

from cli.endpoint import Endpoint
from cli.failure import CommandFailed, ExitCode

POLL_SECONDS = 20
"""Longest wait of one long poll."""
QUICK = aiohttp.ClientTimeout(total=POLL_SECONDS + 15, sock_connect=5)
WAITED = aiohttp.ClientTimeout(total=3600, sock_connect=5)
"""Of calls that last as long as a run: Cloud Run's longest request."""


class Client:
    """Calls one API. Use as an asynchronous context manager.

    Raises (every call):
        CommandFailed: unreachable (no answer, 429 or 5xx), or refused, with the API's own words.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._endpoint.key}"},
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def submit(self, body: Mapping[str, object]) -> dict[str, Any]:
        """Creates a run and returns its record; in mode `sync` once the run has ended."""
        return await self._call("POST", "/v1/runs", body, timeout=WAITED)

    async def stream(self, body: Mapping[str, object]) -> AsyncIterator[dict[str, Any]]:
        """Creates a run of mode `stream`; its events, to the one that says how it ended."""
        async with self._answered("POST", "/v1/runs", body, WAITED) as response:
            async for line in _lines(response.content):
                event = json.loads(line)
                yield event
                if event["event_type"] == "completed":
                    return
        raise CommandFailed(
            "the stream broke off before its run ended; look for the run with `holdfast runs list`",
            ExitCode.UNREACHABLE,
        )

    async def run(self, run_id: str) -> dict[str, Any]:
        """A run's record."""
        return await self._call("GET", f"/v1/runs/{run_id}")

    async def runs(self, limit: int, state: str | None) -> list[dict[str, Any]]:
        """The newest runs."""
        query = f"?limit={limit}" + (f"&state={state}" if state else "")
        answer = await self._call("GET", f"/v1/runs{query}")
        return list(answer["runs"])

    async def events(self, run_id: str, after: int = -1) -> AsyncIterator[dict[str, Any]]:
        """A run's events in order, to the last one of its terminal state."""
        while True:
            answer = await self._call("GET", f"/v1/runs/{run_id}/events?after={after}&wait={POLL_SECONDS}")
            for event in answer["events"]:
                after = max(after, int(event["sequence"]))
                yield event
            if answer["complete"]:
                return

    async def dead_letters(
        self, filters: Mapping[str, str], limit: int, before: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Dead letters, newest first, and where the next page begins; None where there is none."""
        query = urlencode({**filters, "limit": limit, **({} if before is None else {"before": before})})
        answer = await self._call("GET", f"/v1/dead-letters?{query}")
        return list(answer["dead_letters"]), answer["next_before"]

    async def dead_letter(self, letter_id: str, *, payload: bool) -> dict[str, Any]:
        """One dead letter, with the message's data where it is wanted and was kept."""
        return await self._call(
            "GET", f"/v1/dead-letters/{quote(letter_id, safe='')}{'?payload=true' if payload else ''}"
        )

    async def replay(self, letter_id: str) -> dict[str, Any]:
        """Begins the next generation of a letter's run, and returns the run."""
        return await self._call("POST", f"/v1/dead-letters/{quote(letter_id, safe='')}/replay")

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        timeout: aiohttp.ClientTimeout = QUICK,
    ) -> dict[str, Any]:
        async with self._answered(method, path, body, timeout) as response:
            answer = json.loads(await response.text())
            return dict(answer)

    @asynccontextmanager
    async def _answered(
        self, method: str, path: str, body: Mapping[str, object] | None, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"{self._endpoint.url}{path}"
        accept = {"Accept": "application/x-ndjson, application/json"}
        try:
            async with self._session.request(
                method, url, json=body, headers=accept, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status >= 400:
                    # What passes is no refusal: the same call may be taken later.
                    passes = response.status >= 500 or response.status == 429
                    code = ExitCode.UNREACHABLE if passes else ExitCode.REFUSED
                    raise CommandFailed(_refusal(response.status, await response.text()), code)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CommandFailed(
                f"no answer from {self._endpoint.url} ({error or type(error).__name__}): see that it runs, on this "
                "machine with `make up`, or correct HOLDFAST_URL",
                ExitCode.UNREACHABLE,
            ) from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def _refusal(status: int, text: str) -> str:
    """One line out of a problem answer, field pointers included."""
    try:
        problem = json.loads(text)
        fields = "; ".join(f"{item['pointer']}: {item['detail']}" for item in problem.get("errors", []))
        said = str(problem.get("detail") or problem.get("title") or "")
        return f"{problem.get('code', status)}: {said}" + (f" ({fields})" if fields else "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the API answered {status}"
