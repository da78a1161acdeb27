"""How a role's process starts and ends: settings, logs, connections, self checks, service, drain."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import uvloop

from runtime.adapters.clock import SystemClock
from runtime.collector import spare_the_collector
from runtime.contract.errors import HoldfastError
from runtime.contract.settings.faults import SettingsError
from runtime.observability import logs
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.roles import Outside, Process, RoleName, Settings, build, log_level, read_settings
from runtime.server import Lifecycle, serve

EXIT_CONFIGURATION: Final = 78
"""EX_CONFIG of sysexits.h: starting again changes nothing before something else does."""

Connect = Callable[[Settings, Clock], AbstractAsyncContextManager[Outside]]
"""Opens a role's connections and closes what the application does not."""


def run_role(
    role: str,
    environ: Mapping[str, str],
    connect: Connect,
    listener: socket.socket | None = None,
    clock: Clock | None = None,
) -> int:
    """Runs a role until it is told to stop, and returns the exit code: 0, or 78 with one line for each fault.

    Args:
        role: a RoleName.
        environ: the whole environment; nothing else is read.
        connect: opens the connections.
        listener: a bound socket to serve on; None binds the settings' port.
        clock: the process's; None means the system's.
    """
    try:
        name = RoleName(role)
    except ValueError:
        known = ", ".join(RoleName)
        return _refuse([f"unknown_role: {role!r} is not a role of this image, which has: {known}"])
    try:
        settings = read_settings(name, environ)
    except SettingsError as error:
        return _refuse(error.lines)
    logs.configure(name, log_level(settings), project_id=settings.project_id, for_good=True)
    try:
        uvloop.run(_serve(settings, environ.get("K_REVISION", "local"), connect, listener, clock or SystemClock()))
    except HoldfastError as error:
        return _refuse([error.line()])
    return 0


async def _serve(
    settings: Settings, revision: str, connect: Connect, listener: socket.socket | None, clock: Clock
) -> None:
    process = Process(clock=clock, lifecycle=Lifecycle(clock), metrics=Metrics(), revision=revision)
    async with connect(settings, clock) as outside:
        app = await build(settings, outside, process)
        await serve(app, process.lifecycle, port=settings.port, listener=listener, on_bound=spare_the_collector)


def _refuse(lines: tuple[str, ...] | list[str]) -> int:
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return EXIT_CONFIGURATION
