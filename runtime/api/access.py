"""Who may call which route: said where the route is added, so that none is open by forgetting it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiohttp import web

from runtime.api.api_key import Caller, Scope
from runtime.api.bearer import authorization_of, bearer_token
from runtime.api.key_ring import KeyRing
from runtime.api.problem import Handler, Problem, unavailable
from runtime.contract.errors import Decision, HoldfastError
from runtime.identity.job_token import JobClaims, JobVerifier
from runtime.identity.push_token import PushVerifier
from runtime.ports.clock import Clock
from runtime.server import Lifecycle

log = structlog.get_logger()

KeyHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
JobHandler = Callable[[web.Request, JobClaims], Awaitable[web.StreamResponse]]


class Access:
    """Checks callers before anything of a request's body is read.

    Args:
        ring: API keys.
        verifier: job tokens.
        service_tokens: Google tokens of the scheduler's account.
        letter_tokens: Google tokens of the account that pushes dead letters; None where there is none.
        audience: what those tokens must be made for.
        clock: for the times in job tokens.
        lifecycle: told of work that a drain waits for.
    """

    def __init__(
        self,
        ring: KeyRing,
        verifier: JobVerifier,
        service_tokens: PushVerifier,
        letter_tokens: PushVerifier | None,
        audience: str,
        clock: Clock,
        lifecycle: Lifecycle,
    ) -> None:
        self._ring = ring
        self._verifier = verifier
        self._service_tokens = service_tokens
        self._letter_tokens = letter_tokens
        self._audience = audience
        self._clock = clock
        self._lifecycle = lifecycle

    def with_key(self, scope: Scope, handler: KeyHandler, *, begins_work: bool = False) -> Handler:
        """A route for holders of an API key.

        Args:
            scope: what the key must have.
            handler: called with the key's holder.
            begins_work: refused while the process drains, and waited for by a drain.
        """

        async def checked(request: web.Request) -> web.StreamResponse:
            caller = await self._ring.verify(authorization_of(request), scope)
            if begins_work:
                self._begin()
            return await handler(request, caller)

        return checked

    def with_job_token(self, handler: JobHandler) -> Handler:
        """A route for the worker of a run. A drain waits for it: the worker holds what it reports nowhere else."""

        async def checked(request: web.Request) -> web.StreamResponse:
            claims = self._claims(request)
            self._tracked()
            return await handler(request, claims)

        return checked

    def for_scheduler(self, handler: Handler) -> Handler:
        """A route for the scheduler alone."""
        return self._with_google_token(self._service_tokens, handler)

    def for_dead_letters(self, handler: Handler) -> Handler | None:
        """A route for the identity that pushes dead letters; None where the settings name none."""
        return None if self._letter_tokens is None else self._with_google_token(self._letter_tokens, handler)

    def _with_google_token(self, tokens: PushVerifier, handler: Handler) -> Handler:
        async def checked(request: web.Request) -> web.StreamResponse:
            try:
                await tokens.verify(authorization_of(request), self._audience)
            except HoldfastError as error:
                raise _refused(error) from error
            self._begin()
            return await handler(request)

        return checked

    def _begin(self) -> None:
        if not self._lifecycle.accepting:
            raise unavailable("draining", "this instance is going away; send the same request again")
        self._tracked()

    def _claims(self, request: web.Request) -> JobClaims:
        token = bearer_token(authorization_of(request))
        if token is None:
            raise _unauthorized("job_token_invalid", "send one header `Authorization: Bearer` with the job's token")
        try:
            return self._verifier.verify_token(token.decode(), self._clock.now())
        except HoldfastError as error:
            raise _refused(error) from error

    def _tracked(self) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        if task is not None:
            self._lifecycle.track(task)


def _refused(error: HoldfastError) -> Problem:
    log.warning("token_refused", error=error.line())
    if error.decision is Decision.RETRY:
        return unavailable(error.code, "the token cannot be judged now; try again")
    return _unauthorized(error.code, "the token was refused")


def _unauthorized(code: str, detail: str) -> Problem:
    return Problem(401, code, detail, headers={"WWW-Authenticate": 'Bearer realm="holdfast"'})
