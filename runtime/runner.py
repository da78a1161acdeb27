"""aiohttp's server, in our own words: what is no request, and what nobody wants a body of, gets a plain refusal."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import hdrs, web

from runtime.contract.names import HEALTH_READY
from runtime.observability.metrics import Metrics
from runtime.observability.request_counts import METRICS
from runtime.server import DRAIN_CONNECTIONS_SECONDS, LINGER_SECONDS, Lifecycle, Page, health_pages

MALFORMED: Final = "malformed_request"
"""Answer, with 400, to bytes that are no HTTP."""
UNHANDLED: Final = "unhandled_error"
"""Answer, with 503, where a handler and every middleware around it failed."""

log = structlog.get_logger()

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Runner(web.AppRunner):
    """Runs an application. The framework's own answers repeat what was sent and ask for bodies that nobody reads; these
    do neither, and what was sent reaches no log.

    Args: see web.AppRunner.
    """

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        server = _Server(
            self._without_idle_expectation(made.request_handler),
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **made._kwargs,  # noqa: SLF001 - there is no other way to give an application's server its own connections
        )
        server.metrics = self.app.get(METRICS)
        return server

    def _without_idle_expectation(self, handle: Handle) -> Handle:
        """Hides `Expect` where no body is to be asked for: there the framework would send 100, or 417."""

        async def expecting(request: web.BaseRequest) -> web.StreamResponse:
            expectation = request.headers.get(hdrs.EXPECT)
            if expectation is None or (expectation.lower() == "100-continue" and await self._wants_body(request)):
                return await handle(request)
            headers = request.headers.copy()
            headers.popall(hdrs.EXPECT)
            return await handle(request.clone(headers=headers))

        return expecting

    async def _wants_body(self, request: web.BaseRequest) -> bool:
        if not request.can_read_body or not isinstance(request, web.Request):
            return False
        return (await self.app.router.resolve(request)).http_exception is None


class _Server(web.Server):
    metrics: Metrics | None = None

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The last resort of the framework; `message` is its text, which repeats what was sent."""
        del message
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun, no other can be given")
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            log.info("request_malformed", kind=type(exc).__name__)
            if isinstance(self._manager, _Server) and self._manager.metrics is not None:
                self._manager.metrics.malformed(status)
            response = web.Response(status=status, text=MALFORMED)
        else:
            log.error("unhandled_error", exc_info=exc)
            response = web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=UNHANDLED)
        response.force_close()
        return response


class WebService:
    """An application of aiohttp as a role serves it; see runtime.server.Service.

    Args:
        app: built by the role's `create_app`.
    """

    def __init__(self, app: web.Application) -> None:
        self._runner = runner_of(app, lingering_time=LINGER_SECONDS, shutdown_timeout=DRAIN_CONNECTIONS_SECONDS)

    async def start(self) -> None:
        """See Service."""
        await self._runner.setup()

    async def listen(self, port: int, listener: socket.socket | None = None) -> int:
        """See Service."""
        site: web.BaseSite = (
            web.SockSite(self._runner, listener) if listener is not None else web.TCPSite(self._runner, "0.0.0.0", port)  # noqa: S104 - the platform reaches the container from outside
        )
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """See Service."""
        await self._runner.cleanup()


def add_health_routes(
    app: web.Application, lifecycle: Lifecycle, metrics: Metrics, service: str, *, health: str = HEALTH_READY
) -> None:
    """Adds what every service shows of itself; see health_pages."""
    for path, page in health_pages(lifecycle, metrics, service, health=health).items():

        async def show(_request: web.Request, page: Page = page) -> web.Response:
            status, kind, body = page()
            return web.Response(status=status, body=body, headers={hdrs.CONTENT_TYPE: kind})

        app.router.add_get(path, show)


def runner_of(app: web.Application, **settings: Any) -> Runner:
    """The runner of a role, which every server of one is made with.

    Args:
        app: built by the role's `create_app`.
        settings: see web.AppRunner.
    """
    return Runner(
        app,
        access_log=None,
        handler_cancellation=False,
        auto_decompress=False,  # no role takes compressed bodies, and an inflated one passes every limit on its way
        **settings,
    )
