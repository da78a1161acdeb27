"""The metadata server as one service account sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from sandbox.identity.faults import Step
from sandbox.identity.state import SCOPE_ALL

if TYPE_CHECKING:
    from sandbox.identity.server import IdentityService

_ROOT: Final = "/computeMetadata/v1"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
"""Asked of every caller, so that a browser or a redirect cannot fetch tokens; sent back with every answer."""


class MetadataServer:
    """Answers `metadata.google.internal` for one account.

    Args:
        identity: gives out the tokens.
        email: the account that the caller runs as.
    """

    def __init__(self, identity: IdentityService, email: str) -> None:
        self._identity = identity
        self._email = email

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[self._guard])
        account = f"{_ROOT}/instance/service-accounts/{{account}}"
        world = self._identity.world
        app.add_routes(
            [
                web.get("/", _alive),
                web.get(f"{account}/", self._account),
                web.get(f"{account}/email", self._fixed(self._email)),
                web.get(f"{account}/token", self._token),
                web.get(f"{account}/identity", self._id_token),
                web.get(f"{_ROOT}/project/project-id", self._fixed(world.project)),
                web.get(f"{_ROOT}/project/numeric-project-id", self._fixed(world.number)),
                web.get(f"{_ROOT}/instance/region", self._fixed(f"projects/{world.number}/regions/{world.region}")),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_ROOT):
            if request.headers.get("Metadata-Flavor") != "Google":
                return web.Response(status=403, text="the header Metadata-Flavor: Google is missing", headers=_FLAVOR)
            if "X-Forwarded-For" in request.headers:
                return web.Response(status=403, text="forwarded requests are refused", headers=_FLAVOR)
            if request.match_info.get("account", self._email) not in {"default", self._email}:
                return web.Response(status=404, text="no such account on this instance", headers=_FLAVOR)
            refused = await self._identity.faulty(Step.METADATA)
            if refused is not None:
                return web.Response(status=refused, headers=_FLAVOR)
        response = await handler(request)
        response.headers.update(_FLAVOR)
        return response

    @staticmethod
    def _fixed(text: str) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text=text)

        return answer

    async def _account(self, _: web.Request) -> web.Response:
        return web.json_response({"aliases": ["default"], "email": self._email, "scopes": [SCOPE_ALL]})

    async def _token(self, request: web.Request) -> web.Response:
        token = self._identity.issue_access_token(self._email, request.query.get("scopes") or SCOPE_ALL)
        left = token.expires - self._identity.clock.now()
        return web.json_response(
            {"access_token": token.value, "expires_in": int(left.total_seconds()), "token_type": "Bearer"}
        )

    async def _id_token(self, request: web.Request) -> web.Response:
        audience = request.query.get("audience", "")
        if not audience:
            return web.Response(status=400, text="the query parameter audience is missing")
        return web.Response(text=self._identity.id_token(self._email, audience))


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="computeMetadata/\n")
