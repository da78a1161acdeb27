"""`/v1/keys`: API keys, for holders of the ADMIN scope."""

from __future__ import annotations

from aiohttp import web

from runtime.api import query_string
from runtime.api.access import Access
from runtime.api.api_key import Caller, KeyRecord, Scope
from runtime.api.body import expect_nothing_yet, read_json_body
from runtime.api.key_store import KeyStore
from runtime.api.run_view import timestamp
from runtime.ports.clock import Clock


class KeyRoutes:
    """The routes that make and revoke keys."""

    def __init__(self, keys: KeyStore, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def add_to(self, app: web.Application, access: Access) -> None:
        """Adds the routes."""
        create = access.with_key(Scope.ADMIN, self.create)
        app.router.add_post("/v1/keys", create, expect_handler=expect_nothing_yet)
        app.router.add_get("/v1/keys", access.with_key(Scope.ADMIN, self.list))
        app.router.add_delete("/v1/keys/{name}", access.with_key(Scope.ADMIN, self.revoke))

    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes a key; the only answer that ever shows it."""
        record, key = await self._keys.create(await read_json_body(request, self._clock), caller)
        return web.json_response({**_shown(record), "key": key}, status=201, headers={"Cache-Control": "no-store"})

    async def list(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Stored keys, without secrets or hashes."""
        query_string.only(request, ())
        return web.json_response({"keys": [_shown(record) for record in await self._keys.list()]})

    async def revoke(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Revokes a key, everywhere within half a minute."""
        query_string.only(request, ())
        await self._keys.revoke(request.match_info["name"])
        return web.Response(status=204)


def _shown(record: KeyRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "scopes": [scope.value for scope in record.scopes],
        "created_at": timestamp(record.created_at),
        "created_by": record.created_by,
        "revoked_at": None if record.revoked_at is None else timestamp(record.revoked_at),
    }
