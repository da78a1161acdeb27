"""One call of a job's target."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import aiohttp

from runtime.contract.errors import Decision, HoldfastError
from sandbox.network import Hosts, LoopbackConnector
from sandbox.scheduler.declared import Job

CONNECT_SECONDS: Final = 10.0
_SPARE_SECONDS: Final = 5.0
"""The caller's clock ends a try at its deadline; this far behind it, the client's own limit does."""


class TargetFailed(HoldfastError):
    """A call that got no answer."""

    code = "target_failed"
    decision = Decision.RETRY


class Targets:
    """Calls the hosts of this sandbox. Redirects are not followed, cookies and proxies not used.

    Args:
        hosts: where the targets are.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Call it inside the loop, once."""
        self._session = aiohttp.ClientSession(
            connector=LoopbackConnector(self._hosts), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )

    async def close(self) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, job: Job, scheduled: datetime, token: str | None) -> int:
        """Makes one call and returns its status.

        Args:
            job: with its target and deadline.
            scheduled: when the run was due; told in a header.
            token: sent as bearer token; None sends none.

        Raises:
            TargetFailed: not connected, cut off, or not HTTP.
        """
        if self._session is None:
            raise TargetFailed("the scheduler is not started")
        headers = {
            **job.target.headers,
            "User-Agent": "Google-Cloud-Scheduler",
            "X-CloudScheduler": "true",
            "X-CloudScheduler-JobName": job.name,
            "X-CloudScheduler-ScheduleTime": scheduled.isoformat(),
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        limits = aiohttp.ClientTimeout(
            total=job.deadline.total_seconds() + _SPARE_SECONDS, sock_connect=CONNECT_SECONDS
        )
        try:
            async with self._session.request(
                job.target.method,
                job.target.uri,
                data=job.target.body or None,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
            ) as response:
                return response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TargetFailed(f"{job.target.uri} gave no answer: {type(error).__name__}: {error}") from error
