"""Cloud Run on this machine: two entrances, and the declared services behind them."""

from __future__ import annotations

import asyncio
import functools
import shutil
import signal
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web

from runtime.ports.clock import Clock
from sandbox.cloud_run.admission import Identity
from sandbox.cloud_run.declared import DeclaredService, ServiceMisdeclared, declared_service
from sandbox.cloud_run.factory import InstanceFactory, Surroundings
from sandbox.cloud_run.faults import Fault, FaultOrders
from sandbox.cloud_run.fork_launcher import default_launcher
from sandbox.cloud_run.gateway import Gateway
from sandbox.cloud_run.logs import LogSink, to_structlog
from sandbox.cloud_run.process import Launcher
from sandbox.cloud_run.routing import Entrance, Routes
from sandbox.cloud_run.service import InstanceState, Service
from sandbox.cloud_run.upstream import BUFFER_BYTES, HEAD_BYTES
from sandbox.network import Address
from sandbox.private_folder import private_folder
from sandbox.world import SERVICE, World

log = structlog.get_logger()

_LOOPBACK: Final = "127.0.0.1"
_LAST_ANSWERS: Final = 1.0
"""Seconds for the answers of ended instances to reach their callers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the front differs from the platform.

    Attributes:
        external_port: port for people; 0 means any free one.
        public: service that answers people who come by a loopback address; None means none.
        idle_after: seconds without a request after which an instance above the minimum goes; the platform takes up to
            15 minutes.
        linger: seconds between the last request of an instance and the loss of its CPU.
    """

    external_port: int = 0
    public: str | None = None
    idle_after: float = 900
    linger: float = 0.2


class CloudRun:
    """The front.

    Args:
        world: declared services, secrets and grants.
        identity: verifies callers, and serves the metadata of accounts.
        clock: for every wait.
        surroundings: what the instances may reach; its hosts may still be filled until `deploy`.
        options: see Options.
        sink: gets every line that an instance writes; None means the log.
        launcher: starts instances; None means what is fastest on this machine.
    """

    def __init__(
        self,
        world: World,
        identity: Identity,
        clock: Clock,
        *,
        surroundings: Surroundings | None = None,
        options: Options | None = None,
        sink: LogSink | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self._world = world
        self._identity = identity
        self._clock = clock
        self._surroundings = surroundings or Surroundings()
        self._options = options or Options()
        self._sink = sink or to_structlog
        self._launcher = launcher or default_launcher()
        self._gateway = Gateway(identity, clock)
        self._factory: InstanceFactory | None = None
        self._services: dict[str, Service] = {}
        self._misdeclared: dict[str, str] = {}
        self._draining: dict[asyncio.Task[None], Service] = {}
        self._addresses: dict[Entrance, Address] = {}
        self._open = AsyncExitStack()
        self._faults = FaultOrders()

    @property
    def internal(self) -> Address:
        """Where Google's services, and services whose VPC covers it, find `*.run.app`."""
        return self._addresses[Entrance.INTERNAL]

    @property
    def external(self) -> Address:
        """Where people, and all other services, find `*.run.app`."""
        return self._addresses[Entrance.EXTERNAL]

    @property
    def services(self) -> Mapping[str, Service]:
        """The services that are served, by name."""
        return self._services

    @property
    def failures(self) -> dict[str, str]:
        """Why services do not work, by name: not declared as they must be, or no instance starts."""
        failed = {name: service.failure for name, service in self._services.items()}
        return {**self._misdeclared, **{name: why for name, why in failed.items() if why is not None}}

    async def start(self) -> None:
        """Opens the entrances; no service is behind them before `deploy`.

        Raises:
            OSError: the wanted port is taken.
        """
        try:
            folder = await asyncio.to_thread(private_folder, "holdfast-run-", "99999/http.sock")
            self._open.push_async_callback(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True)
            await self._open.enter_async_context(self._launcher)
            for entrance, port in ((Entrance.INTERNAL, 0), (Entrance.EXTERNAL, self._options.external_port)):
                self._addresses[entrance] = await self._listen(entrance, port)
        except BaseException:
            await self._open.aclose()
            raise
        self._factory = InstanceFactory(
            self._world,
            self._identity,
            self._clock,
            surroundings=self._surroundings,
            launcher=self._launcher,
            sink=self._sink,
            faults=self._faults,
            linger=self._options.linger,
            folder=folder,
            entrances=lambda covered: self.internal if covered else self.external,
        )

    async def deploy(self, *, check: bool = True) -> dict[str, str]:
        """Serves what the world declares now; a service that has not changed keeps its instances.

        Args:
            check: starts one instance of every new revision, as the platform does.

        Returns:
            What does not work: see `failures`.
        """
        if self._factory is None:
            raise RuntimeError("call start() first")
        kept, new = {}, {}
        for declared in self._declared():
            old = self._services.get(declared.name)
            if old is not None and old.declared == declared:
                kept[declared.name] = old
                continue
            new[declared.name] = Service(declared, self._factory, self._clock, self._options.idle_after)
            await new[declared.name].pool.fleet.start()
        replaced = [service for name, service in self._services.items() if name not in kept]
        self._services = {**kept, **new}
        routes = Routes.of((service.declared for service in self._services.values()), self._options.public)
        self._gateway.route(routes, self._services)
        for old in replaced:
            drain = asyncio.create_task(old.pool.drain(old.declared.timeout), name=f"drain {old.declared.revision}")
            self._draining[drain] = old
            drain.add_done_callback(self._draining.pop)
        if check:
            await asyncio.gather(*(service.pool.fleet.prove() for service in new.values()))
        return self.failures

    async def stop(self) -> None:
        """Ends every instance, as a drain does, and closes the entrances; nothing is left running."""
        drains = dict(self._draining)
        for drain in drains:
            drain.cancel()
        if drains:
            await asyncio.wait(drains)
        await asyncio.gather(*(service.pool.stop() for service in (*self._services.values(), *drains.values())))
        await self._open.aclose()

    def order_faults(self, service: str, faults: Iterable[Fault]) -> None:
        """Hands faults to the next instance of a service that starts; a further order is for the one after that."""
        self._faults.order(service, faults)

    def instances(self, service: str) -> list[InstanceState]:
        """The instances of a service, the starting ones included."""
        return self._services[service].instances

    def kill(self, service: str, number: signal.Signals = signal.SIGKILL, *, instance: str | None = None) -> None:
        """Signals the instances of a service, and what they have started, now; one alone where it is named."""
        for member in self._services[service].pool.fleet.members:
            if instance in {None, member.id}:
                member.kill(number)

    def _declared(self) -> list[DeclaredService]:
        self._misdeclared.clear()
        found = []
        for resource in self._world.of_type(SERVICE):
            try:
                found.append(declared_service(resource, self._world))
            except ServiceMisdeclared as error:
                log.warning("service_misdeclared", service=resource.name, detail=str(error))
                self._misdeclared[resource.name] = str(error)
        return found

    async def _listen(self, entrance: Entrance, port: int) -> Address:
        server = web.Server(
            functools.partial(self._gateway.handle, entrance=entrance),
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            read_bufsize=BUFFER_BYTES,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_LAST_ANSWERS)
        await runner.setup()
        self._open.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, _LOOPBACK, port).start()
        return Address(port=int(runner.addresses[0][1]))
