"""The flow engine: the port's side of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from runtime.execution.answer import cancelled, failed, read_answer, timed_out
from runtime.execution.flow.compile import compile_definition
from runtime.execution.flow.faults import FlowFault, FlowLimit
from runtime.execution.flow.http import HttpClient
from runtime.execution.flow.run import FlowRun
from runtime.execution.tasks import end, first_done
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

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """See Engine."""
        return check_flow(spec)

    async def run(self, context: RunContext) -> RunResult:
        """See Engine."""
        definition, faults = compile_definition(context.spec)
        if faults:
            pointer, fault = faults[0]
            return failed(f"the flow cannot run: {pointer or '/'}: {fault}")
        if context.cancelled.is_set():
            return cancelled()
        work = asyncio.create_task(FlowRun(definition, context, self._clock, self._http).execute())
        stop = asyncio.create_task(context.cancelled.wait())
        try:
            in_time = await first_done(self._clock, context.seconds_left, work, stop)
            if not work.done():
                return cancelled() if in_time else timed_out()
            return read_answer(work.result())
        except FlowFault as fault:
            return failed(f"node {fault.node!r}: {fault}" if fault.node else str(fault), status_code=fault.status_code)
        except FlowLimit as limit:
            return failed(str(limit))
        finally:
            await end(work, stop)
