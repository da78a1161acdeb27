"""Engines that are Python functions: each run in a process of its own. See docs/bring-your-own-job.md."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog
from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import MIB
from runtime.contract.settings.run_memory import DEFAULT_RUN_MEMORY
from runtime.contract.states import FailureClass
from runtime.execution.answer import cancelled, failed, read_answer, timed_out
from runtime.execution.entry_point_spec import check_entry_point
from runtime.execution.process.frames import Frame, FrameBroken, FrameKind
from runtime.execution.process.output_log import OutputLog
from runtime.execution.process.run_process import RunProcess, describe_end
from runtime.execution.process.starter import ProcessStarter
from runtime.execution.tasks import end, first_done
from runtime.execution.values import encode
from runtime.ports.clock import Clock
from runtime.ports.engine import Isolation, RunContext, RunResult

CHECK_SECONDS: Final = 60.0
"""Longest that importing a job's module may take when a service starts."""
LAST_OUTPUT_SECONDS: Final = 2.0
"""Longest that printed lines may wait for a full stream once their process is gone."""

log = structlog.get_logger()


class ProcessLimits(Struct, frozen=True):
    """What a job's process may use.

    Attributes:
        memory_bytes: private memory, its heap and all that it maps to write to; 0: no limit.
    """

    memory_bytes: int = DEFAULT_RUN_MEMORY * MIB


class EntryPointEngine:
    """Runs one Python function.

    Args:
        entry_point: `module.path:function`.
        starter: forks the processes.
        clock: measures deadlines.
        limits: of each process.
    """

    isolation = Isolation.PROCESS

    def __init__(
        self, entry_point: str, starter: ProcessStarter, clock: Clock, limits: ProcessLimits | None = None
    ) -> None:
        self._entry_point = entry_point
        self._starter = starter
        self._clock = clock
        self._limits = limits or ProcessLimits()

    def check(self, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """See Engine."""
        return check_entry_point(spec)

    async def run(self, context: RunContext) -> RunResult:
        """See Engine.

        Raises:
            ProcessUnavailable: no process could be started.
            EngineStillRunning: its process could not be ended.
        """
        if context.cancelled.is_set():
            return cancelled()
        began = self._clock.monotonic()
        process = await self._starter.spawn(self._job(context))
        try:
            return await self._follow(process, context, context.seconds_left - (self._clock.monotonic() - began))
        finally:
            await process.destroy()

    async def find(self) -> str | None:
        """Imports the function in a process of its own: what is missing, None where it is there.

        Raises:
            ProcessUnavailable: no process could be started.
            EngineStillRunning: its process could not be ended.
        """
        job = {"entry_point": self._entry_point, "check": True, "memory_bytes": self._limits.memory_bytes}
        process = await self._starter.spawn(encode(job, MIB))
        try:
            async with self._clock.timeout(CHECK_SECONDS):
                while frame := await process.frame():
                    if frame.kind is FrameKind.NOT_FOUND:
                        return f"{frame.members.get('error')} in {self._starter.search_path}"
                    if frame.kind is not FrameKind.EVENT:
                        return None if frame.kind is FrameKind.FOUND else str(frame.members.get("error"))
                return describe_end(await process.gone())
        except TimeoutError:
            return f"importing {self._entry_point!r} took longer than {CHECK_SECONDS:g} s"
        except FrameBroken as error:
            return f"importing {self._entry_point!r} broke its channel: {error}"
        finally:
            await process.destroy()

    def _job(self, context: RunContext) -> bytes:
        job = {
            "entry_point": self._entry_point,
            "check": False,
            "memory_bytes": self._limits.memory_bytes,
            "run_id": context.run_id,
            "attempt": context.attempt,
            "input": context.input,
            "seconds_left": context.seconds_left,
        }
        return encode(job, 16 * MIB)

    async def _follow(self, process: RunProcess, context: RunContext, seconds_left: float) -> RunResult:
        output = OutputLog(context.emit)
        frames = asyncio.create_task(_read_frames(process, context))
        streams = [
            asyncio.create_task(output.follow(process.stdout, "stdout")),
            asyncio.create_task(output.follow(process.stderr, "stderr")),
        ]
        stop = asyncio.create_task(context.cancelled.wait())
        tasks = (frames, *streams, stop)
        try:
            in_time = await first_done(self._clock, seconds_left, frames, stop)
            finished = frames.done()
            # A result ends the process too, and whatever it left running.
            await process.terminate()
            await self._last_output(output, streams)
            if not finished:
                return cancelled() if in_time else timed_out()
            return frames.result() or failed(describe_end(await process.gone()))
        except FrameBroken as error:
            return failed(f"the job's process broke its channel: {error}")
        except HoldfastError as error:
            return failed(f"an event of the job was refused: {error}")
        finally:
            await end(*tasks)

    async def _last_output(self, output: OutputLog, streams: list[asyncio.Task[None]]) -> None:
        try:
            async with self._clock.timeout(LAST_OUTPUT_SECONDS):
                await asyncio.wait(streams)
                await output.close()
        except TimeoutError:
            log.warning("job_output_cut", seconds=LAST_OUTPUT_SECONDS)


async def _read_frames(process: RunProcess, context: RunContext) -> RunResult | None:
    """Passes events on until the result; None where the process closed its channel without one."""
    while frame := await process.frame():
        if frame.kind is not FrameKind.EVENT:
            return _result(frame)
        await context.emit(str(frame.members.get("event_type")), frame.members.get("payload"))
    return None


def _result(frame: Frame) -> RunResult:
    error = str(frame.members.get("error"))
    match frame.kind:
        case FrameKind.RESULT:
            return read_answer(frame.members.get("output"))
        case FrameKind.TOO_LARGE:
            return failed(f"the output is too large: {error}", failure_class=FailureClass.RESULT_STORE_ERROR)
        case FrameKind.NOT_FOUND:
            return failed(f"engine_not_found: {error}", status_code=503, failure_class=FailureClass.NO_WORKER_TEMPLATE)
        case _:
            return failed(error)
