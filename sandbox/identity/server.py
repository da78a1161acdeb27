"""Google's identity: signs ID tokens, gives out access tokens, serves its public keys and the metadata servers."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import structlog
from aiohttp import web

from runtime.contract.names import GOOGLE_ISSUERS
from runtime.ports.clock import Clock
from sandbox.identity.faults import Faults, Step
from sandbox.identity.grants import Grants
from sandbox.identity.metadata import MetadataServer
from sandbox.identity.state import SCOPE_ALL, AccessToken, AccessTokens, IdTokens, SigningKey
from sandbox.network import Address
from sandbox.private_folder import private_folder
from sandbox.world import World

log = structlog.get_logger()


class IdentityService:
    """Accounts' tokens and the public keys that verify them.

    Args:
        world: project, number and region that the metadata server tells.
        clock: token times, and the waits of ordered faults.
        faults: None means none; more can be ordered while the service runs.
    """

    def __init__(self, world: World, clock: Clock, faults: Faults | None = None) -> None:
        self.world = world
        self.clock = clock
        self.faults = faults or Faults()
        self.grants = Grants(world, clock)
        self._access = AccessTokens()
        self._key: SigningKey | None = None
        self._id_tokens: IdTokens | None = None
        self._keys_port = 0
        self._runners: list[web.AppRunner] = []
        self._folder: Path | None = None
        self._metadata: dict[str, Address] = {}
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Makes the signing key and serves it; everything else works only after this."""
        self._key = await asyncio.to_thread(SigningKey.generate)
        self._id_tokens = IdTokens(self._key)
        self._folder = await asyncio.to_thread(private_folder, "holdfast-", "99999.sock")
        app = web.Application()
        app.router.add_get("/oauth2/v3/certs", self._serve_keys)
        runner = await self._runner(app)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._keys_port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Closes every listener; safe where `start` failed or never ran."""
        for runner in reversed(self._runners):
            await runner.cleanup()
        self._runners.clear()
        self._metadata.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    @property
    def keys_address(self) -> Address:
        """Where `https://www.googleapis.com/oauth2/v3/certs` is on this machine."""
        return Address(port=self._keys_port)

    def id_token(self, email: str, audience: str, *, age: timedelta = timedelta(0)) -> str:
        """An OIDC token of an account for one audience, valid for half an hour at least.

        Args:
            email: the account.
            audience: what it is for.
            age: of a new one, as Google too hands out tokens that it has used before; under half an hour.

        Raises:
            RuntimeError: the service is not started.
        """
        if self._id_tokens is None:
            raise RuntimeError("identity is not started: there is no signing key yet")
        return self._id_tokens.issue(email, audience, self.clock.now(), age)

    def verify_id_token(self, token: str, audiences: Collection[str]) -> str | None:
        """The e-mail of a token that was signed here, is not over and is for one of the audiences; else None."""
        claims = self._key.claims(token) if self._key is not None else None
        if claims is None:
            return None
        expires, email = claims.get("exp"), claims.get("email")
        if not isinstance(expires, int) or expires <= self.clock.now().timestamp():
            return None
        if claims.get("iss") not in GOOGLE_ISSUERS or claims.get("aud") not in audiences:
            return None
        return email if isinstance(email, str) and claims.get("email_verified") is True else None

    def access_token(self, email: str, scope: str = SCOPE_ALL) -> str:
        """An opaque token of an account for Google's APIs, valid for five minutes at least.

        Args:
            email: the account.
            scope: one scope, or several with commas or spaces between.
        """
        return self.issue_access_token(email, scope).value

    def issue_access_token(self, email: str, scope: str) -> AccessToken:
        """Like `access_token`, with the token's end."""
        return self._access.issue(email, frozenset(scope.replace(",", " ").split()), self.clock.now())

    def authenticate(self, access_token: str, scope: str | None = None) -> str | None:
        """The e-mail of an access token; None where it is unknown, over, or lacks the scope.

        Args:
            access_token: without `Bearer`.
            scope: what the called API asks for; None asks for nothing. The scope for everything covers it.
        """
        token = self._access.find(access_token, self.clock.now())
        if token is None or (scope is not None and token.scopes.isdisjoint({scope, SCOPE_ALL})):
            return None
        return token.email

    async def metadata_address(self, email: str) -> Address:
        """Where `metadata.google.internal` is for a process that runs as this account; started at the first call.

        Raises:
            RuntimeError: the service is not started.
        """
        async with self._starting:
            if email not in self._metadata:
                self._metadata[email] = await self._start_metadata(email)
            return self._metadata[email]

    async def _start_metadata(self, email: str) -> Address:
        if self._folder is None:
            raise RuntimeError("identity is not started: there is no folder for sockets yet")
        path = str(self._folder / f"{len(self._metadata)}.sock")
        runner = await self._runner(MetadataServer(self, email).app())
        await web.UnixSite(runner, path).start()
        log.debug("metadata_server_started", account=email)
        return Address(path=path)

    async def _runner(self, app: web.Application) -> web.AppRunner:
        runner = web.AppRunner(app, access_log=None)
        self._runners.append(runner)
        await runner.setup()
        return runner

    async def faulty(self, step: Step) -> int | None:
        """Takes the next ordered fault of a step: waits as it says, and returns the status to answer with, if any."""
        fault = self.faults.next(step)
        if fault is None:
            return None
        if fault.seconds:
            await self.clock.sleep(fault.seconds)
        return fault.status

    async def _serve_keys(self, _: web.Request) -> web.Response:
        refused = await self.faulty(Step.KEYS)
        if refused is not None or self._key is None:
            return web.Response(status=refused or 503)
        headers = {"Cache-Control": "public, max-age=3600, must-revalidate, no-transform"}
        return web.json_response({"keys": [dict(self._key.jwk)]}, headers=headers)
