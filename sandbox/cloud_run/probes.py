"""Asks an instance how it is, as its service declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runtime.ports.clock import Clock
from sandbox.cloud_run.cpu import Cpu
from sandbox.cloud_run.probe_settings import ProbeSettings
from sandbox.cloud_run.upstream import LOST, NotConnected, Upstream

STARTUP_POLL: Final = 0.02
"""Seconds between tries while an instance starts. Only the end of the declared window is kept, not its period: nobody
gains by a start that takes ten seconds because the first try came too early."""
_OK: Final = range(200, 400)


class Prober:
    """Probes of one instance.

    Args:
        upstream: connections to it.
        host: its service's, sent with HTTP probes.
        cpu: given back for the length of every try.
        clock: for all waits.
    """

    def __init__(self, upstream: Upstream, host: str, cpu: Cpu, clock: Clock) -> None:
        self._upstream = upstream
        self._host = host
        self._cpu = cpu
        self._clock = clock

    async def started(self, probe: ProbeSettings) -> str | None:
        """Waits until a start has passed; the reason of the last failure where its window ends first."""
        deadline = self._clock.monotonic() + probe.window
        await self._clock.sleep(probe.initial_delay)
        while (reason := await self._try(probe)) is not None:
            if self._clock.monotonic() >= deadline:
                return reason
            await self._clock.sleep(STARTUP_POLL)
        return None

    async def watch(self, probe: ProbeSettings, on_change: Callable[[str | None], None]) -> None:
        """Probes for ever; tells when the instance becomes bad, with the reason, and when it becomes good again."""
        await self._clock.sleep(probe.initial_delay)
        good, run = True, 0
        while True:
            reason = await self._try(probe)
            run = run + 1 if good is (reason is not None) else 0
            if run >= (probe.failures if good else probe.successes):
                good, run = not good, 0
                on_change(reason)
            await self._clock.sleep(probe.period)

    async def _try(self, probe: ProbeSettings) -> str | None:
        try:
            with self._cpu.held():
                async with self._clock.timeout(probe.timeout):
                    return await self._ask(probe)
        except TimeoutError:
            return f"no answer within {probe.timeout:g} s"
        except NotConnected as error:
            return str(error)
        except LOST as error:
            return f"{type(error).__name__}: the connection was lost"

    async def _ask(self, probe: ProbeSettings) -> str | None:
        exchange = await self._upstream.exchange()
        try:
            if probe.path is None:
                return None
            headers = {"Host": self._host, "User-Agent": "GoogleHC/1.0", **dict(probe.headers)}
            lines = [f"GET {probe.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            exchange.send("\r\n".join([*lines, "", ""]).encode())
            message = await exchange.response()
            if exchange.body is not None:
                await exchange.body.read()
            return None if message.code in _OK else f"GET {probe.path} answered {message.code}"
        finally:
            await exchange.close()
