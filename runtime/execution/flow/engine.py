"""The flow engine: the port's side of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from runtime.execution.answer import cancelled, failed, read_answer, timed_out
from runtime.execution.flow.compile import compile_definition
from runtime.execution.flow.compiled import CompiledDefinitions
from runtime.execution.flow.faults import FlowFault, FlowLimit
from runtime.execution.flow.http import HttpClient
from runtime.execution.flow.run import FlowRun
from runtime.execution.tasks import end
from runtime.ports.clock import Clock
from runtime.ports.engine import Isolation, RunContext, RunResult


def check_flow(spec: Mapping[str, object]) -> list[tuple[str, str]]:
    """Faults of a definition as (JSON pointer, what is wrong); empty where it can run. Pure, bounded."""
    return compile_definition(spec)[1]


class FlowEngine:
    """Runs definitions on the event loop, under the limits of `flow/limits.py`.

    Args:
        clock: measures and waits.
        http: sends the requests of `http` nodes.
    """

    isolation = Isolation.INLINE

    def __init__(self, clock: Clock, http: HttpClient) -> None:
        self._clock = clock
        self._http = http
        self._definitions = CompiledDefinitions()

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """See Engine."""
        return check_flow(spec)

    async def run(self, context: RunContext) -> RunResult:
        """See Engine."""
        definition, faults = self._definitions.definition(context.spec)
        if faults:
            pointer, fault = faults[0]
            return failed(f"the flow cannot run: {pointer or '/'}: {fault}")
        if context.cancelled.is_set():
            return cancelled()
        try:
            return read_answer(await self._within_its_time(FlowRun(definition, context, self._clock, self._http)))
        except _Stopped:
            return cancelled() if context.cancelled.is_set() else timed_out()
        except FlowFault as fault:
            return failed(f"node {fault.node!r}: {fault}" if fault.node else str(fault), status_code=fault.status_code)
        except FlowLimit as limit:
            return failed(str(limit))

    async def _within_its_time(self, run: FlowRun) -> object:
        context, watching = run.context, list[asyncio.Task[None]]()
        scope = self._clock.timeout(context.seconds_left)

        def watch() -> None:
            watching.append(asyncio.create_task(_cut(scope, context.cancelled)))

        # Most flows never wait: they are over before the loop's next turn.
        soon = asyncio.get_running_loop().call_soon(watch)
        try:
            async with scope:
                return await run.execute()
        except TimeoutError:
            if scope.expired():
                raise _Stopped from None
            raise
        finally:
            soon.cancel()
            await end(*watching)


class _Stopped(Exception):
    """A flow was cut off: its time is over, or it is cancelled."""


async def _cut(scope: asyncio.Timeout, cancelled: asyncio.Event) -> None:
    await cancelled.wait()
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
