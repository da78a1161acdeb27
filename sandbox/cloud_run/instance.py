"""One instance of a service: a process, its socket, its probes and its end."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import DRAIN_SECONDS
from runtime.ports.clock import Clock
from sandbox.cloud_run.cpu import Cpu
from sandbox.cloud_run.declared import DeclaredService
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.line import Order
from sandbox.cloud_run.logs import LogSink, Output
from sandbox.cloud_run.probes import Prober
from sandbox.cloud_run.process import Child, Launcher, signal_group, signal_process
from sandbox.cloud_run.upstream import Upstream

log = structlog.get_logger()

MISCONFIGURED: Final = 78
"""Exit code of a process that was told something it cannot work with; it has said what, a line each."""
_FAULT: Final = re.compile(r"[a-z][a-z0-9_]*: .+")
_OUTPUT_SECONDS: Final = 2.0
_END_SECONDS: Final = 1.0
"""How long the end of a process may take to be told after its connections have ended."""


class InstanceFailed(HoldfastError):
    """An instance did not become ready; the message is for people."""

    code = "instance_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan:
    """What an instance is made of.

    Attributes:
        service: what is declared.
        config: its surroundings.
        environment: its exact environment; never logged.
        folder: its own, made anew and removed at its end.
        linger: seconds between its last request and the loss of its CPU, where that is declared.
    """

    service: DeclaredService
    config: InstanceConfig
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    linger: float


class Instance:
    """A running copy of a service.

    Args:
        plan: what to run.
        launcher: starts the process.
        clock: for probes and the end.
        sink: gets its output.
        on_change: called when it was ready and its process has ended, or it serves again.
    """

    def __init__(
        self, plan: InstancePlan, launcher: Launcher, clock: Clock, sink: LogSink, on_change: Callable[[Instance], None]
    ) -> None:
        self.id = plan.config.instance
        self.in_flight = 0
        self.idle_since = clock.monotonic()
        self.serving = False
        self._plan = plan
        self._launcher = launcher
        self._clock = clock
        self._on_change = on_change
        self._output = Output(plan.service.name, self.id, sink)
        self.upstream = Upstream(str(plan.folder / "http.sock"), clock)
        self.cpu = Cpu(self._signal_all, idle=plan.service.cpu_idle, linger=plan.linger, clock=clock)
        self._prober = Prober(self.upstream, plan.service.host, self.cpu, clock)
        self._child: Child | None = None
        self._exit: asyncio.Task[int] | None = None
        self._watches: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()

    @property
    def pid(self) -> int | None:
        """Process id; None where it does not run."""
        return self._child.pid if self._child is not None and not self.ended else None

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._exit is not None and self._exit.done()

    async def start(self) -> None:
        """Starts the process and waits until its startup probe passes.

        Raises:
            InstanceFailed: says why it did not.
        """
        try:
            child = await self._launch()
            reason = await self._until_started(child)
        except BaseException:
            await self.stop(grace=0)
            raise
        if reason is not None:
            await self.stop(grace=0)
            raise InstanceFailed(reason)
        self.serving = True
        self.idle_since = self._clock.monotonic()
        service = self._plan.service
        for probe, on_change in ((service.liveness, self._on_liveness), (service.readiness, self._on_readiness)):
            if probe is not None:
                self._watch(self._prober.watch(probe, on_change))
        self._watch(self._report_end())

    async def confirm_end(self) -> None:
        """A connection was lost: takes no more requests where the process has ended with it, which is soon known."""
        if self._exit is None:
            return
        try:
            async with self._clock.timeout(_END_SECONDS):
                await asyncio.wait({self._exit})
        except TimeoutError:
            return
        self.serving = False

    async def stop(self, grace: float = DRAIN_SECONDS) -> None:
        """Ends the process with SIGTERM, or after `grace` seconds by force, and leaves nothing of it behind."""
        self.serving = False
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches)
            self._watches.clear()
        child, exit_ = self._child, self._exit
        if child is not None and exit_ is not None:
            await self.cpu.keep()
            if grace > 0 and not exit_.done():
                signal_process(child.pid, signal.SIGTERM)
                try:
                    async with self._clock.timeout(grace):
                        await asyncio.wait({exit_})
                except TimeoutError:
                    log.warning("instance_killed", instance=self.id, detail=f"it did not end within {grace:g} s")
            signal_group(child.pid, signal.SIGKILL)
            await asyncio.wait({exit_})
            # What it started in its group goes with it, whether or not it ended by itself.
            signal_group(child.pid, signal.SIGKILL)
            await self._output_ended()
            child.close()
        self.upstream.close()
        await self._open.aclose()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signals everything of the instance now."""
        self._signal_all(number)

    def _signal_all(self, number: signal.Signals) -> None:
        if self._child is not None and not self.ended:
            signal_group(self._child.pid, number)

    async def _launch(self) -> Child:
        plan = self._plan
        await asyncio.to_thread(plan.folder.mkdir, mode=0o700)
        self._open.push_async_callback(asyncio.to_thread, shutil.rmtree, plan.folder, ignore_errors=True)
        # Bound but not listening: until the role listens, a connection is refused as it is in the cloud.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            await asyncio.to_thread(listener.bind, str(plan.folder / "http.sock"))
            try:
                child = await self._launcher.launch(Order(plan.config, plan.environment, listener, plan.folder))
            except OSError as error:
                raise InstanceFailed(f"instance {self.id} could not be started: {error}") from error
        self._child = child
        self._exit = asyncio.create_task(child.wait(), name=f"end of {self.id}")
        self._output.follow(child.stdout, "stdout")
        self._output.follow(child.stderr, "stderr")
        return child

    async def _until_started(self, child: Child) -> str | None:
        """None once the startup probe has passed; else why it will not."""
        exit_ = self._exit
        if exit_ is None:
            return f"instance {self.id} was not started"
        probe = self._plan.service.startup
        with self.cpu.held():
            started = asyncio.create_task(self._prober.started(probe), name=f"startup probe of {self.id}")
            try:
                await asyncio.wait({started, exit_}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                started.cancel()
                await asyncio.wait({started})
        if exit_.done():
            signal_group(child.pid, signal.SIGKILL)
            await self._output_ended()
            return self._why_ended(exit_.result())
        reason = started.result()
        what = f"its port on {self._plan.service.port}" if probe.path is None else probe.path
        return None if reason is None else f"startup probe ({what}) did not pass within {probe.window:g} s: {reason}"

    async def _output_ended(self) -> None:
        try:
            async with self._clock.timeout(_OUTPUT_SECONDS):
                await self._output.ended()
        except TimeoutError:
            log.warning("output_given_up", instance=self.id)

    def _why_ended(self, code: int) -> str:
        tail = [line for line in self._output.tail if line.strip()]
        if code == MISCONFIGURED:
            faults = [line for line in tail if _FAULT.fullmatch(line)]
            return "\n".join(faults or tail) or "the process refused its settings without saying why"
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the process ended with {how} before it was ready" + (f": {tail[-1].strip()}" if tail else "")

    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        self._watches.append(asyncio.create_task(work, name=f"watch {self.id}"))

    async def _report_end(self) -> None:
        if self._exit is not None:
            code = await asyncio.shield(self._exit)
            self.serving = False
            log.warning("instance_ended", instance=self.id, exit_code=code)
            self._on_change(self)

    def _on_liveness(self, reason: str | None) -> None:
        if reason is not None:
            log.warning("liveness_failed", instance=self.id, detail=reason)
            self.kill()

    def _on_readiness(self, reason: str | None) -> None:
        log.info("readiness_changed", instance=self.id, ready=reason is None, detail=reason or "")
        self.serving = reason is None
        self._on_change(self)
