"""An engine that does what a test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from runtime.contract.states import ProgressStatus
from runtime.ports.engine import Isolation, RunContext, RunResult

Script = Callable[[RunContext], Awaitable[RunResult]]


class ScriptedEngine:
    """Runs a script.

    Attributes:
        contexts: of the runs that began.
        running: runs that have not ended.
    """

    isolation = Isolation.INLINE

    def __init__(self, script: Script) -> None:
        self._script = script
        self.contexts: list[RunContext] = []
        self.running = 0

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        return []

    async def run(self, context: RunContext) -> RunResult:
        self.contexts.append(context)
        self.running += 1
        try:
            return await self._script(context)
        finally:
            self.running -= 1


async def until_cancelled(context: RunContext) -> RunResult:
    """Ends as soon as it is told to."""
    await context.cancelled.wait()
    return RunResult(ProgressStatus.CANCELLED, error="Execution cancelled")


def completes(output: object = None) -> Script:
    """Ends at once."""

    async def script(_context: RunContext) -> RunResult:
        return RunResult(ProgressStatus.COMPLETED, output=output)

    return script
