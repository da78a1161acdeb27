"""The engines of a process, looked up before anything is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.settings.engines import BUILT_IN
from runtime.contract.settings.run_memory import DEFAULT_RUN_MEMORY
from runtime.execution.meters import Level
from runtime.execution.process.starter import ProcessStarter
from runtime.execution.registry import Engines, EngineTools
from runtime.ports.clock import Clock


class EngineMissing(HoldfastError):
    """An engine that the settings name cannot be imported in this image."""

    code = "engine_not_found"


class OpenedEngines(Struct, frozen=True):
    """Engines that can run.

    Attributes:
        engines: by name.
        stop: ends what they need; called once, when nothing runs any more.
    """

    engines: Engines
    stop: Callable[[], Awaitable[None]]


async def open_engines(
    places: Mapping[str, str],
    http_hosts: tuple[str, ...] | None,
    clock: Clock,
    alive: Level,
    *,
    run_memory: int = DEFAULT_RUN_MEMORY,
) -> OpenedEngines:
    """Opens the engines of the settings; an entry point needs a fork server, which is started here.

    Args:
        places: see Engines.
        http_hosts: hosts that flows may send requests to; None: any public one.
        clock: time.
        alive: counts the processes of runs.
        run_memory: MiB that each of them may have; 0: no limit.

    Raises:
        EngineMissing: with every engine that is not there.
        ProcessUnavailable: no process can be started to look.
    """
    # In a thread: it looks along the module search path.
    starter = await asyncio.to_thread(ProcessStarter, clock, alive=alive)
    engines = Engines(places, EngineTools(clock=clock, starter=starter, http_hosts=http_hosts, run_memory=run_memory))
    if any(place != BUILT_IN for place in places.values()):
        await starter.start()
        missing = await engines.missing()
        if missing:
            await starter.stop()
            raise EngineMissing("; ".join(line.removeprefix("engine_not_found: ") for line in missing))
    return OpenedEngines(engines, starter.stop)
