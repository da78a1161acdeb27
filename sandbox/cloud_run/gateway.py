"""Answers every request: routes it, checks its caller, finds an instance, carries it through, within its time."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from aiohttp import web

from runtime.ports.clock import Clock
from sandbox.cloud_run.admission import Admitted, Identity, Refused, admit
from sandbox.cloud_run.instance import Instance
from sandbox.cloud_run.pool import NoCapacity, NoInstance
from sandbox.cloud_run.proxy import Passage
from sandbox.cloud_run.routing import Entrance, Routes
from sandbox.cloud_run.service import Service
from sandbox.cloud_run.upstream import LOST, NotConnected

log = structlog.get_logger()


class Gateway:
    """The platform's side of every request.

    Args:
        identity: verifies callers.
        clock: for the services' timeouts.
    """

    def __init__(self, identity: Identity, clock: Clock) -> None:
        self._identity = identity
        self._clock = clock
        self._routes = Routes({})
        self._services: Mapping[str, Service] = {}

    def route(self, routes: Routes, services: Mapping[str, Service]) -> None:
        """Serves these from now on."""
        self._routes = routes
        self._services = services

    async def handle(self, request: web.BaseRequest, entrance: Entrance) -> web.StreamResponse:
        """Answers one request."""
        declared = self._routes.find(request.headers.get("Host", ""), entrance)
        if declared is None:
            return _answer(404, "the requested URL was not found: no such service, or not reachable from here")
        decision = admit(request.headers, declared, self._identity)
        if isinstance(decision, Refused):
            return _answer(decision.status, decision.reason)
        try:
            return await self._serve(request, self._services[declared.name], decision)
        except NoCapacity as error:
            return _answer(429, str(error))
        except NoInstance as error:
            return _answer(503, str(error))

    async def _serve(self, request: web.BaseRequest, service: Service, admitted: Admitted) -> web.StreamResponse:
        while True:
            instance = await service.pool.acquire()
            try:
                with instance.cpu.held():
                    return await self._through(request, service, instance, admitted)
            except NotConnected:
                # Its process has ended, which is not known here yet. Nothing was sent, so another one may have it.
                instance.serving = False
            finally:
                service.pool.release(instance)

    async def _through(
        self, request: web.BaseRequest, service: Service, instance: Instance, admitted: Admitted
    ) -> web.StreamResponse:
        declared = service.declared
        passage = Passage(request, declared.host, admitted)
        try:
            async with self._clock.timeout(declared.timeout):
                exchange = await instance.upstream.exchange(head_only=request.method == "HEAD")
                try:
                    return await passage.through(exchange)
                finally:
                    await exchange.close()
        except TimeoutError:
            log.warning("request_timed_out", service=declared.name, instance=instance.id, seconds=declared.timeout)
            failed = _answer(504, f"{declared.name} did not answer within {declared.timeout:g} s")
        except LOST as error:
            if request.transport is not None:
                # The caller's next request must not meet the same process.
                await instance.confirm_end()
                log.warning("instance_lost", service=declared.name, instance=instance.id, detail=type(error).__name__)
            failed = _answer(503, f"the connection to an instance of {declared.name} was lost")
        if passage.begun and request.transport is not None:
            # The head is gone: only a cut connection tells the caller that what it has is not everything.
            request.transport.abort()
        return failed


def _answer(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=f"{reason}\n")
