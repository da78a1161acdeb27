"""The engines of a deployment, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from runtime.contract.limits import MIB
from runtime.contract.settings.engines import BUILT_IN
from runtime.contract.settings.run_memory import DEFAULT_RUN_MEMORY
from runtime.execution.entry_point_spec import check_entry_point
from runtime.execution.flow.engine import FlowEngine, check_flow
from runtime.execution.flow.http import HttpClient
from runtime.ports.clock import Clock
from runtime.ports.engine import Engine

if TYPE_CHECKING:  # checking a definition needs nothing of what starts processes
    from runtime.execution.entry_point import EntryPointEngine
    from runtime.execution.process.starter import ProcessStarter


class EngineTools(Struct, frozen=True, kw_only=True):
    """What running needs, and checking does not.

    Attributes:
        clock: time.
        starter: forks the processes of entry points; started and stopped by whoever made it.
        http: sends the requests of flows; None: the guarded client, public addresses only.
        http_hosts: hosts that the guarded client asks; None: any.
        run_memory: MiB that each process may have; 0: no limit.
    """

    clock: Clock
    starter: ProcessStarter
    http: HttpClient | None = None
    http_hosts: tuple[str, ...] | None = None
    run_memory: int = DEFAULT_RUN_MEMORY


class Engines:
    """Knows the engines that settings name.

    Args:
        places: name -> `module.path:function`, or BUILT_IN for the flow engine.
        tools: None where engines are only asked about: the API checks definitions and runs nothing.
    """

    def __init__(self, places: Mapping[str, str], tools: EngineTools | None = None) -> None:
        self._places = dict(places)
        self._tools = tools

    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(sorted(self._places))

    def check(self, name: str, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """Faults of a run's definition as (JSON pointer into it, what is wrong). Pure, bounded.

        An unknown engine is a fault of the whole, with the names that there are.
        """
        if name not in self._places:
            return [("", f"there is no engine {name!r}; there are {', '.join(self.names())}")]
        if self._places[name] == BUILT_IN:
            return check_flow(spec)
        return check_entry_point(spec)

    def get(self, name: str) -> Engine | None:
        """The engine of a name; None where there is none.

        Raises:
            RuntimeError: made without tools; a programming error.
        """
        if self._tools is None:
            raise RuntimeError("these engines were made without tools: they can be asked about, not run")
        if name not in self._places:
            return None
        if self._places[name] != BUILT_IN:
            return self._entry_point(name, self._tools)
        http = self._tools.http
        if http is None:
            from runtime.execution.flow.http_client import GuardedHttpClient

            http = GuardedHttpClient(hosts=self._tools.http_hosts)
        return FlowEngine(self._tools.clock, http)

    async def missing(self) -> list[str]:
        """The entry points that cannot be imported, one line `engine_not_found: ...` each. Asked when a service starts.

        Raises:
            ProcessUnavailable: no process could be started to look.
            RuntimeError: made without tools.
        """
        if self._tools is None:
            raise RuntimeError("these engines were made without tools: they can be asked about, not run")
        lines = []
        for name, place in self._places.items():
            if place == BUILT_IN:
                continue
            fault = await self._entry_point(name, self._tools).find()
            if fault is not None:
                lines.append(f"engine_not_found: engine {name!r} is {place!r}, but {fault}")
        return lines

    def _entry_point(self, name: str, tools: EngineTools) -> EntryPointEngine:
        from runtime.execution.entry_point import EntryPointEngine, ProcessLimits

        limits = ProcessLimits(memory_bytes=tools.run_memory * MIB)
        return EntryPointEngine(self._places[name], tools.starter, tools.clock, limits)
