"""User code in processes of its own: what it sees, how it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.adapters.clock import SystemClock
from runtime.contract.limits import EVENT_BYTES, MIB
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.entry_point import EntryPointEngine, ProcessLimits
from runtime.execution.process.output_log import OUTPUT_LINES
from runtime.execution.process.starter import ProcessStarter
from runtime.execution.registry import Engines, EngineTools
from runtime.observability.metrics import Metrics
from runtime.ports.engine import RunContext, RunResult

MODULE = "tests.support.entry_points"
CLOCK = SystemClock()


class Run:
    """One run of an entry point.

    Attributes:
        events: what it emitted.
        cancelled: stops it.
        gate: holds its events back while it is clear.
        waiting: whether an event has reached the gate.
    """

    def __init__(self, starter: ProcessStarter, function: str, value: object = None, **options: Any) -> None:
        name = function if ":" in function else f"{MODULE}:{function}"
        memory = options.pop("memory", 1024 * MIB)
        self.engine = EntryPointEngine(name, starter, CLOCK, ProcessLimits(memory_bytes=memory))
        self.events: list[tuple[str, Any]] = []
        self.cancelled = asyncio.Event()
        self.waiting = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.context = RunContext("r1", 2, {}, value, options.get("seconds", 60), self.emit, self.cancelled)

    async def emit(self, event_type: str, payload: object) -> None:
        self.waiting = True
        await self.gate.wait()
        self.events.append((event_type, payload))

    async def result(self) -> RunResult:
        return await self.engine.run(self.context)

    def lines(self, stream: str) -> list[str]:
        """What it printed."""
        return [p["message"] for name, p in self.events if name == "log" and p.get("stream") == stream]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - the event comes from another process
            await asyncio.sleep(0.01)


def exists(path: str) -> bool:
    return Path(path).exists()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("function", ["echo", "echo_later"])
@pytest.mark.parametrize("value", [None, {"a": [1, 2.5, "ü\n"]}, "x" * 200_000])
async def test_a_function_gets_its_input_and_gives_its_output(
    starter: ProcessStarter, function: str, value: object
) -> None:
    run = Run(starter, function, value)
    assert await run.result() == RunResult(ProgressStatus.COMPLETED, output=value)


async def test_a_process_sees_nothing_of_the_service(starter: ProcessStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKEND_KEY", "secret")
    result = await Run(starter, "facts").result()
    assert isinstance(result.output, dict)
    seen = result.output
    assert (seen["run_id"], seen["attempt"], seen["group"], seen["threads"]) == ("r1", 2, True, 1)
    assert 0 < seen["seconds_left"] <= 60
    assert seen["environment"] == ["GIVEN", "HOME", "LANG", "PATH", "PYTHONPATH", "PYTHONUTF8", "TMPDIR", "TZ"]
    assert not any("BACKEND" in line or "secret" in line for line in seen["initial"]), "nor in /proc"
    kinds = sorted(target.partition(":")[0] for target in seen["descriptors"].values())
    assert kinds == ["/dev/null", "pipe", "pipe", "pipe"], "stdin, stdout, stderr and its channel; no socket"
    assert not exists(seen["scratch"]), "its scratch folder goes with it"


async def test_files_that_a_job_leaves_behind_are_removed(starter: ProcessStarter) -> None:
    result = await Run(starter, "leaves_a_file").result()
    assert not exists(str(result.output))


async def test_events_arrive_in_order_before_the_result(starter: ProcessStarter) -> None:
    run = Run(starter, "events", 3000)
    await run.result()
    assert run.events == [("tick", number) for number in range(3000)]


async def test_a_job_that_emits_faster_than_its_events_go_out_waits(starter: ProcessStarter) -> None:
    """BR-72: the pipe is the only buffer."""
    run = Run(starter, "large_events", 200)
    run.gate.clear()
    task = asyncio.create_task(run.result())
    await run.until(lambda: run.waiting)
    assert not task.done()
    assert run.events == []
    run.gate.set()
    assert (await task).status is ProgressStatus.COMPLETED
    assert [len(payload) for _, payload in run.events] == [EVENT_BYTES - 2] * 200


async def test_events_that_cannot_be_sent_are_refused_to_the_code_that_emits_them(starter: ProcessStarter) -> None:
    run = Run(starter, "bad_events")
    result = await run.result()
    assert isinstance(result.output, list)
    assert len(result.output) == 7
    assert run.events == []


@pytest.mark.parametrize(
    ("function", "value", "status_code", "says"),
    [
        ("answers", 422, 422, "as asked"),
        ("answers", 200, None, "as asked"),
        ("raises", None, None, "ValueError: first line second line"),
        ("exits", 0, None, "SystemExit: 0"),
        ("vanishes", 3, None, "exited with code 3"),
        ("crashes", None, None, "SIGSEGV"),
        ("kills_itself", None, None, "SIGKILL before it returned; the most common cause is memory"),
        ("returns_no_json", None, None, "the returned value cannot be sent"),
        ("writes_garbage", "ffffffff", None, "broke its channel"),
        ("writes_garbage", "00000002" + b"{}".hex(), None, "broke its channel"),
        ("writes_garbage", "00000003" + b"NaN".hex(), None, "broke its channel"),
        ("writes_garbage", "00000002" + b"\xff\xff".hex(), None, "broke its channel"),
    ],
)
async def test_a_fault_of_user_code_fails_the_run_in_one_line(
    starter: ProcessStarter, function: str, value: object, status_code: int | None, says: str
) -> None:
    result = await Run(starter, function, value).result()
    assert (result.status, result.status_code) == (ProgressStatus.FAILED, status_code)
    assert result.failure_class is FailureClass.FRAMEWORK_ERROR
    assert says in (result.error or "")
    assert "\n" not in (result.error or "")


async def test_a_traceback_goes_to_the_log_of_the_run_and_not_to_its_error(starter: ProcessStarter) -> None:
    run = Run(starter, "raises")
    result = await run.result()
    assert "Traceback" not in (result.error or "")
    ((kind, payload),) = run.events
    assert (kind, payload["level"]) == ("log", "error")
    assert 'raise ValueError("first line' in payload["message"]


async def test_nothing_that_a_job_says_holds_the_signed_address_that_it_was_given(starter: ProcessStarter) -> None:
    run = Run(starter, "leaks", "https://storage.googleapis.com/b/o?X-Goog-Signature=" + "5ec4e7" * 40)
    result = await run.result()
    assert (result.error or "").startswith("ValueError: 403 for https://storage.googleapis.com/b/o?[redacted]")
    messages = [payload["message"] for _, payload in run.events]
    assert len(messages) == 3
    assert all("googleapis.com" in message and "5ec4e7" not in message for message in messages)


async def test_a_job_that_takes_too_much_memory_fails_alone(starter: ProcessStarter) -> None:
    result = await Run(starter, "takes_memory", memory=512 * MIB).result()
    assert result.status is ProgressStatus.FAILED
    assert (result.error or "").startswith("MemoryError")
    assert (await Run(starter, "echo", 1).result()).output == 1


async def test_an_output_that_fits_no_record_is_a_failure_of_its_own_class(starter: ProcessStarter) -> None:
    result = await Run(starter, "returns_too_much").result()
    assert (result.status, result.failure_class) == (ProgressStatus.FAILED, FailureClass.RESULT_STORE_ERROR)
    huge = await Run(starter, "returns", 100 * MIB).result()
    assert huge.failure_class is FailureClass.RESULT_STORE_ERROR


async def test_what_a_job_prints_becomes_log_events(starter: ProcessStarter) -> None:
    run = Run(starter, "prints")
    await run.result()
    replaced = "\N{REPLACEMENT CHARACTER}"
    assert run.lines("stdout") == ["one", "two", f"without end of line{replaced}{replaced}raw", "from a child"]
    assert run.lines("stderr") == ["to stderr"]


async def test_printing_without_end_is_cut_counted_and_blocks_nobody(starter: ProcessStarter) -> None:
    run = Run(starter, "prints_without_end", 50_000)
    assert (await run.result()).output == "printed"
    assert len(run.lines("stdout")) == OUTPUT_LINES
    assert run.events[-1][1]["level"] == "warning"
    assert "dropped" in run.events[-1][1]["message"]
    endless = Run(starter, "prints_one_endless_line")
    await endless.result()
    assert sum(map(len, endless.lines("stdout"))) == 50_000


@pytest.mark.parametrize("function", ["sleeps", "spins", "ignores_terminate"])
async def test_a_job_past_its_deadline_is_stopped_and_the_run_times_out(starter: ProcessStarter, function: str) -> None:
    result = await Run(starter, function, seconds=0.7).result()
    assert (result.status, result.failure_class) == (ProgressStatus.TIMEOUT, FailureClass.FRAMEWORK_TIMEOUT)


async def test_what_was_printed_before_the_deadline_is_kept(starter: ProcessStarter) -> None:
    run = Run(starter, "spins", seconds=1)
    await run.result()
    assert run.lines("stdout") == ["spinning"]


async def test_a_job_that_is_cancelled_is_stopped_even_where_it_ignores_the_signal(starter: ProcessStarter) -> None:
    run = Run(starter, "ignores_terminate")
    task = asyncio.create_task(run.result())
    await run.until(lambda: bool(run.events))
    run.cancelled.set()
    assert (await task).status is ProgressStatus.CANCELLED


async def test_a_busy_job_does_not_hold_the_loop_of_the_service(starter: ProcessStarter) -> None:
    run = Run(starter, "spins", seconds=1.5)
    task = asyncio.create_task(run.result())
    await run.until(lambda: bool(run.events))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1000, "the loop went on turning while user code had a core to itself"


@pytest.mark.parametrize("ending", ["result", "deadline", "cancel", "task"])
async def test_no_process_is_left_however_a_run_ends(starter: ProcessStarter, tmp_path: Path, ending: str) -> None:
    """Daemons that left the process group and ignore SIGTERM are gone too."""
    pids = tmp_path / "pids"
    seconds = 3 if ending == "deadline" else 60
    run = Run(starter, "leaves_processes", {"pids": str(pids), "hang": ending != "result"}, seconds=seconds)
    task = asyncio.create_task(run.result())
    if ending in ("cancel", "task"):
        await run.until(lambda: pids.exists() and bool(pids.read_text()))
    if ending == "cancel":
        run.cancelled.set()
    if ending == "task":
        task.cancel()
    await asyncio.wait([task])
    assert not alive(int(pids.read_text()))
    if ending == "task":
        assert task.cancelled()
    else:
        assert (
            task.result().status
            is {
                "result": ProgressStatus.COMPLETED,
                "deadline": ProgressStatus.TIMEOUT,
                "cancel": ProgressStatus.CANCELLED,
            }[ending]
        )


async def test_a_job_whose_guard_is_killed_ends_too(starter: ProcessStarter) -> None:
    result = await Run(starter, "kills_its_guard").result()
    assert (result.status, result.error) == (ProgressStatus.FAILED, "the job's process was killed from outside")


async def test_many_runs_at_once_keep_apart(starter: ProcessStarter) -> None:
    runs = [Run(starter, "echo", number) for number in range(12)]
    results = await asyncio.gather(*(run.result() for run in runs))
    assert [result.output for result in results] == list(range(12))


async def test_a_fork_server_that_died_is_started_again(starter: ProcessStarter) -> None:
    running = Run(starter, "ignores_terminate")
    task = asyncio.create_task(running.result())
    await running.until(lambda: bool(running.events))
    assert starter._server is not None
    starter._server.kill()
    assert (await Run(starter, "echo", 1).result()).output == 1
    running.cancelled.set()
    assert (await task).status is ProgressStatus.CANCELLED, "a run in progress has its own guard"


async def test_a_cancelled_start_leaves_the_next_one_its_own_answer(starter: ProcessStarter) -> None:
    for turns in range(12):
        task = asyncio.create_task(Run(starter, "echo", "lost").result())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert (await Run(starter, "echo", "kept").result()).output == "kept"


async def test_processes_are_counted_while_they_live() -> None:
    metrics = Metrics()
    starter = ProcessStarter(CLOCK, environment={"PYTHONPATH": os.getcwd()}, alive=metrics.isolated_processes)  # noqa: PTH109

    def count() -> float | None:
        return metrics.registry.get_sample_value("isolated_processes")

    run = Run(starter, "ignores_terminate")
    task = asyncio.create_task(run.result())
    await run.until(lambda: bool(run.events))
    assert count() == 1
    run.cancelled.set()
    await task
    assert count() == 0
    await starter.stop()


async def test_stopping_the_starter_leaves_no_process(starter: ProcessStarter) -> None:
    assert starter._server is not None
    pid = starter._server.pid
    await starter.stop()
    await starter.stop()
    assert not alive(pid)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("tests.support.nowhere:run", "no module 'tests.support.nowhere'"),
        ("nowhere.at.all:run", "no module 'nowhere'"),
        (f"{MODULE}:nobody", "'nobody' is not there"),
        (f"{MODULE}:not_a_function", "'not_a_function' cannot be called"),
    ],
)
async def test_an_entry_point_that_is_missing_is_found_at_the_start_and_fails_its_runs(
    starter: ProcessStarter, place: str, says: str
) -> None:
    engines = Engines({"flow": "", "it": place}, EngineTools(clock=CLOCK, starter=starter))
    (line,) = await engines.missing()
    assert line.startswith(f"engine_not_found: engine 'it' is {place!r}, but ")
    assert says in line
    result = await Run(starter, place).result()
    assert (result.failure_class, result.status_code) == (FailureClass.NO_WORKER_TEMPLATE, 503)
    assert says in (result.error or "")


async def test_a_module_that_breaks_while_it_is_imported_says_how(starter: ProcessStarter) -> None:
    place = "tests.support.broken_entry_point:run"
    engines = Engines({"it": place, "good": f"{MODULE}:echo"}, EngineTools(clock=CLOCK, starter=starter))
    (line,) = await engines.missing()
    assert "RuntimeError: this module is broken" in line
    result = await Run(starter, place).result()
    assert (result.failure_class, result.error) == (
        FailureClass.FRAMEWORK_ERROR, "RuntimeError: this module is broken",
    )  # fmt: skip


async def test_the_sample_job_counts_words(starter: ProcessStarter) -> None:
    run = Run(starter, "jobs.word_count:run", {"text": "The cat.\nThe dog, the END", "top": 1})
    result = await run.result()
    assert result.output == {"words": 6, "distinct": 4, "top": [{"word": "the", "count": 3}]}
    assert run.events == [("progress", {"progress": 100, "current_step": "line 2"})]
    refused = await Run(starter, "jobs.word_count:run", {"text": 5}).result()
    assert (refused.status, refused.status_code) == (ProgressStatus.FAILED, 422)
