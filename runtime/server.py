"""The life of a service process: start, ready, drain; the same for every role."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import structlog

from runtime.contract.names import HEALTH, HEALTH_LIVE, HEALTH_READY, METRICS
from runtime.contract.version import VERSION
from runtime.execution.signal import Signal
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock

DRAIN_WORK_SECONDS: Final = 8.0
"""Time for work in flight to finish or be released after SIGTERM; the platform kills after 10."""
DRAIN_CONNECTIONS_SECONDS: Final = 1.0
"""Time for connections to close after the work is done."""
LINGER_SECONDS: Final = 1.0
"""How long the rest of a body is still taken, and thrown away, once its request was refused: so the caller reads the
answer where it can, and one that is gone or never stops holds nothing for longer."""

log = structlog.get_logger()


class Phase(StrEnum):
    """Where a process is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Lifecycle:
    """What every handler may ask about the process, and the registry of work that outlives its connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._phase = Phase.STARTING
        self._work_until = math.inf
        self.draining = Signal()

    @property
    def phase(self) -> Phase:
        """Where the process is."""
        return self._phase

    @property
    def accepting(self) -> bool:
        """Whether new work may begin."""
        return self._phase is not Phase.DRAINING

    @property
    def work_until(self) -> float:
        """Monotonic time by which work in flight must be over; infinite until a drain begins."""
        return self._work_until

    @property
    def in_flight(self) -> frozenset[asyncio.Task[Any]]:
        """The work that a drain waits for."""
        return frozenset(self._tasks)

    def track(self, task: asyncio.Task[Any]) -> None:
        """Makes a drain wait for a task, whatever happens to the connection that began it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ready(self) -> None:
        """The process serves."""
        if self._phase is Phase.STARTING:
            self._phase = Phase.READY

    def drain(self) -> None:
        """Readiness goes, new work is refused, work in flight is told. A second call changes nothing."""
        if self._phase is not Phase.DRAINING:
            self._work_until = self._clock.monotonic() + DRAIN_WORK_SECONDS
        self._phase = Phase.DRAINING
        self.draining.set()

    async def settled(self, seconds: float) -> bool:
        """Waits for the work in flight; False when it is still there after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        return not self._tasks


Page = Callable[[], tuple[int, str, bytes]]
"""Makes a page: its status, its Content-Type, its body."""


def health_pages(
    lifecycle: Lifecycle, metrics: Metrics, service: str, *, health: str = HEALTH_READY
) -> Mapping[str, Page]:
    """By path: liveness (200 for life), readiness (503 while starting or draining) and metrics.

    Args:
        lifecycle: of the process.
        metrics: of the process.
        service: what the pages call it.
        health: path of the page that `/health` shows too.
    """
    about = {"service": service, "version": VERSION}

    def page(status: int, word: str) -> tuple[int, str, bytes]:
        return status, "application/json; charset=utf-8", json.dumps({"status": word, **about}).encode()

    def ready() -> tuple[int, str, bytes]:
        return page(200 if lifecycle.phase is Phase.READY else 503, lifecycle.phase.value)

    pages: dict[str, Page] = {HEALTH_LIVE: lambda: page(200, "healthy"), HEALTH_READY: ready}
    return {
        **pages,
        HEALTH: pages[health],
        METRICS: lambda: (200, "text/plain; version=0.0.4", metrics.text()),
    }


class Service(Protocol):
    """What a role serves, on whatever server."""

    async def start(self) -> None:
        """Opens and checks what is needed; nothing is served yet. May be cancelled."""
        ...

    async def listen(self, port: int, listener: socket.socket | None = None) -> int:
        """Serves from now on, and returns the port.

        Args:
            port: on all interfaces; 0: any.
            listener: a bound socket to serve on instead.
        """
        ...

    async def stop(self) -> None:
        """Ends connections, within DRAIN_CONNECTIONS_SECONDS, and closes what the start opened, however far it came."""
        ...


async def serve(
    service: Service,
    lifecycle: Lifecycle,
    *,
    port: int,
    listener: socket.socket | None = None,
    on_bound: Callable[[], None] | None = None,
) -> None:
    """Runs a service from start to the end of its drain.

    Its start (adapters, self checks) is over before the port is bound: what answers is ready to serve.

    Args:
        service: of a role.
        lifecycle: the one that the service was given.
        port: TCP port on all interfaces; not used where `listener` is given.
        listener: a bound socket to serve on instead.
        on_bound: called once the process serves.
    """
    with _signals() as stop:
        stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
        try:
            if not await _started(service, stopping):
                return
            await service.listen(port, listener)
            lifecycle.ready()
            log.info("serving", port=port)
            if on_bound is not None:
                on_bound()
            await stopping
            log.info("draining", in_flight=len(lifecycle.in_flight))
            lifecycle.drain()
            if not await lifecycle.settled(DRAIN_WORK_SECONDS):
                log.error("drain_incomplete", in_flight=len(lifecycle.in_flight))
        finally:
            lifecycle.drain()
            stopping.cancel()
            await asyncio.wait({stopping})
            await service.stop()
            log.info("stopped")


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _started(service: Service, stopping: asyncio.Task[Any]) -> bool:
    """Starts a service; False where a signal came first: it must end a start, not wait for it."""
    starting = asyncio.create_task(service.start(), name="start")
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting
        return True
    starting.cancel()
    await asyncio.wait({starting})
    return False
