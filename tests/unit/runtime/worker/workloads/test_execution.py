"""Jobs as the real API publishes them, worked by a real attempt, reported to the real callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.contract.limits import MESSAGE_DATA_BYTES
from runtime.contract.outcomes import OUTCOMES
from runtime.contract.states import ProgressStatus, RunState
from runtime.execution.answer import failed
from runtime.execution.attempt import AttemptTools
from runtime.execution.callback_messages import CallbackUnavailable
from runtime.execution.outcome import AttemptKind
from runtime.identity.job_token import JobSigner
from runtime.ports.engine import EngineStillRunning, Isolation, RunContext, RunResult
from runtime.worker.workloads.execution import CODES, LOOP_CHARACTERS, REFUSALS, ExecutionWorkload
from tests.support.api_bench import KEYS, KID
from tests.support.claims import settings
from tests.support.deliveries import DeliveryBench, Worker, envelope
from tests.support.run_api import LEASE, RunApi, accepted

Run = Callable[[RunContext], Awaitable[RunResult]]


class ScriptedEngine:
    """Runs what the test says.

    Attributes:
        runs: every context that it was given.
    """

    isolation = Isolation.INLINE

    def __init__(self) -> None:
        self.runs: list[RunContext] = []
        self.work: Run = self._succeed

    def check(self, _spec: object) -> list[tuple[str, str]]:
        return []

    async def run(self, context: RunContext) -> RunResult:
        self.runs.append(context)
        return await self.work(context)

    @staticmethod
    async def _succeed(_context: RunContext) -> RunResult:
        return RunResult(ProgressStatus.COMPLETED, {"n": 2})


class Bench:
    """The API's bench, and workers that are pushed what it publishes."""

    def __init__(self, api: RunApi) -> None:
        self.api = api
        self.clock = api.bench.clock
        self.engine = ScriptedEngine()
        self.deliveries = DeliveryBench(self.clock)
        self.tools = AttemptTools(
            clock=self.clock,
            connect=lambda _job: api,
            engine=lambda name: self.engine if name == "flow" else None,
            lease=LEASE,
            park=timedelta(seconds=180),
        )

    @property
    def payload(self) -> dict[str, Any]:
        """The last payload that the API published."""
        return dict(self.api.bench.publisher.messages[-1][1]["payload"])

    def worker(self) -> Worker:
        async def nothing() -> None:
            return None

        longest = self.deliveries.settings.run_timeout
        workload = ExecutionWorkload(self.api.bench.verifier, self.tools, longest, nothing)
        return self.deliveries.worker(workload=workload)

    def message(self, message_id: str = "1001", **changes: Any) -> bytes:
        """The push of the last message, changed on its way."""
        data = {**self.api.bench.publisher.messages[-1][1], **changes}
        return envelope(json.dumps(data).encode(), message_id=message_id)

    def signed(self, **changes: Any) -> dict[str, Any]:
        """The last payload changed, and signed as the API would; a change to `...` removes a field."""
        payload = {name: value for name, value in {**self.payload, **changes}.items() if value is not ...}
        payload.pop("executor_jwt")
        signer = JobSigner(KEYS.private_pem, KID)
        token = signer.sign(payload, subject="shop", lifetime=timedelta(hours=1), now=self.clock.now())
        return {**payload, "executor_jwt": token}

    async def deliver(self, content: bytes | None = None) -> str:
        return await self.api.bench.within(self.worker().deliver(self.message() if content is None else content))

    async def state(self) -> RunState:
        return (await self.api.bench.record()).state


@pytest.fixture
async def bench() -> Bench:
    return Bench(await accepted())


async def test_a_published_run_is_worked_and_acknowledged(bench: Bench) -> None:
    assert await bench.deliver() == "completed"
    assert await bench.state() is RunState.SUCCEEDED
    (context,) = bench.engine.runs
    assert (context.run_id, context.attempt, context.input) == ("r1", 1, {"n": 1})


async def test_a_run_that_fails_is_an_acknowledged_end(bench: Bench) -> None:
    async def wrong(_context: RunContext) -> RunResult:
        return failed("division by zero")

    bench.engine.work = wrong
    assert await bench.deliver() == "completed"
    assert await bench.state() is RunState.FAILED


async def test_an_engine_that_is_not_there_is_a_failed_run_and_no_retry(bench: Bench) -> None:
    payload = bench.signed(engine="report")
    assert await bench.deliver(bench.message(payload=payload)) == "completed"
    record = await bench.api.bench.record()
    assert (record.state, record.failure_class) == (RunState.FAILED, "no_worker_template")


async def test_a_second_message_of_a_finished_run_is_acknowledged_unworked(bench: Bench) -> None:
    """BR-13"""
    await bench.deliver()
    assert await bench.deliver(bench.message("1002")) == "completed"
    assert len(bench.engine.runs) == 1


async def test_a_second_message_of_a_running_run_waits_for_it(bench: Bench) -> None:
    """BR-13"""

    async def slow(_context: RunContext) -> RunResult:
        await bench.clock.sleep(60)
        return RunResult(ProgressStatus.COMPLETED)

    bench.engine.work = slow
    first, second = bench.worker().start(bench.message("1001")), bench.worker().start(bench.message("1002"))
    await bench.clock.advance(59)
    assert not second.done()
    await bench.clock.advance(20)
    assert (await first, await second) == ("completed", "completed")
    assert len(bench.engine.runs) == 1


async def test_a_run_that_stays_busy_is_an_excused_retry(bench: Bench) -> None:
    await bench.api.bench.lease("another", lease_duration_ms=150000)
    busy = bench.worker().start(bench.message())
    await bench.clock.advance(140)
    await bench.api.bench.lease("another", lease_duration_ms=150000)
    await bench.clock.advance(60)
    assert await busy == "run_lease_busy"
    assert (await bench.deliveries.field("attempts"), await bench.deliveries.field("excused")) == (1, 1)
    assert bench.engine.runs == []


async def test_an_api_out_of_reach_is_an_excused_retry(bench: Bench) -> None:
    bench.api.before = lambda _body: CallbackUnavailable("away")
    assert await bench.deliver() == "run_api_unavailable"
    assert await bench.deliveries.field("excused") == 1


async def test_an_end_that_is_not_acknowledged_is_a_retry_that_counts(bench: Bench) -> None:
    bench.api.before = lambda body: CallbackUnavailable("away") if body.get("status") == "completed" else None
    assert await bench.deliver() == "callback_unacknowledged"
    assert await bench.deliveries.field("excused") == 0


async def test_a_lease_that_is_lost_is_a_retry(bench: Bench) -> None:
    async def outlives_its_lease(context: RunContext) -> RunResult:
        await context.cancelled.wait()
        return RunResult(ProgressStatus.COMPLETED)

    bench.engine.work = outlives_its_lease
    delivery = bench.worker().start(bench.message())
    await bench.clock.advance(1)
    bench.api.before = lambda _body: CallbackUnavailable("away")
    await bench.clock.advance(170)
    assert await delivery == "run_lease_lost"


@pytest.mark.parametrize("seconds", [5, 1000], ids=["at its end", "in a drain"])
async def test_what_cannot_be_stopped_keeps_its_claim_and_its_lease_until_both_are_over(
    bench: Bench, seconds: float
) -> None:
    """BR-40"""

    async def stuck(context: RunContext) -> RunResult:
        with contextlib.suppress(TimeoutError):
            async with bench.clock.timeout(seconds):
                await context.cancelled.wait()
        raise EngineStillRunning("the job's process still lives")

    bench.engine.work = stuck
    worker = bench.worker()
    delivery = worker.start(bench.message())
    await bench.clock.advance(5)
    worker.lifecycle.drain()
    await bench.clock.advance(1)
    assert await delivery == ("execution_failed" if seconds == 5 else "worker_shutdown")
    assert await bench.deliveries.field("state") == "in_progress"
    assert (await bench.api.bench.record()).leased(bench.clock.now())
    bench.engine.work = bench.engine._succeed
    again = bench.worker().start(bench.message())
    await bench.clock.advance(140)
    assert len(bench.engine.runs) == 1, "nobody else is let in"
    await bench.clock.advance(60)
    assert await again == "completed"


async def test_an_engine_that_breaks_every_time_ends_in_a_dead_lettered_run(bench: Bench) -> None:
    async def broken(_context: RunContext) -> RunResult:
        raise ZeroDivisionError

    bench.engine.work = broken
    assert [await bench.deliver() for _ in range(4)] == ["execution_failed"] * 3 + ["max_delivery_attempts_exceeded"]
    record = await bench.api.bench.record()
    assert (record.state, record.failure_class, record.last_failure_class) == (
        RunState.DEAD_LETTERED, "retry_exhausted", "framework_error",
    )  # fmt: skip
    (letter,) = await bench.deliveries.letters()
    assert (letter["run_id"], letter["job_id"], letter["app_id"], letter["engine"]) == (
        "r1", "r1.1", record.app_id, "flow",
    )  # fmt: skip


async def test_a_drain_leaves_the_run_to_the_next_worker(bench: Bench) -> None:
    async def long(context: RunContext) -> RunResult:
        await context.cancelled.wait()
        return RunResult(ProgressStatus.CANCELLED)

    bench.engine.work = long
    worker = bench.worker()
    delivery = worker.start(bench.message())
    await bench.clock.advance(10)
    worker.lifecycle.drain()
    await bench.clock.advance(8)
    assert await delivery == "worker_shutdown"
    bench.engine = ScriptedEngine()
    assert await bench.deliver() == "completed", "neither claim nor lease stands in its way"
    assert bench.engine.runs[0].attempt == 2


async def test_a_runs_timeout_is_its_own_within_the_workers(bench: Bench) -> None:
    await bench.api.bench.accept(run_id="r2")
    await bench.deliver(bench.message("1002", payload=bench.signed(timeout_ms=1500)))
    await bench.api.bench.accept(run_id="r3")
    await bench.deliver(bench.message("1003", payload=bench.signed(timeout_ms=10**15)))
    assert [context.seconds_left for context in bench.engine.runs] == [1.5, 240]


# --- what cannot be worked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_execution_payload"),
        (b"not json", "invalid_execution_payload"),
        (b"[" * 20000 + b"]" * 20000, "invalid_execution_payload"),
        (b'{"v":1,"job_id":"r1.1"}', "invalid_execution_payload"),
        (b'{"v":1,"job_id":7,"payload":{}}', "invalid_execution_payload"),
        (b'{"v":2,"job_id":"r1.1","payload":{}}', "envelope_version_unsupported"),
        (b'{"v":1,"job_id":"r1.1","payload":{}}', "execution_token_rejected"),
        ("____dGVzdA==", "data_not_base64"),
        ("dGVz\ndA==", "data_not_base64"),
        ("dGVzdA", "data_not_base64"),
        ("_-8=", "data_not_base64"),
        (b"x" * (10 * 1024 * 1024 + 1), "message_too_large"),
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_dead_lettered_at_first_sight(bench: Bench, data: bytes | str, code: str) -> None:
    """BR-04, BR-07, BR-10"""
    assert await bench.deliver(envelope(data)) == code
    (letter,) = await bench.deliveries.letters()
    assert (letter["failure_class"], letter["reason"]) == ("malformed_message", code)
    assert await bench.state() is RunState.DISPATCHING, "nobody vouches for the message"


async def test_a_token_that_has_expired_is_not_retried(bench: Bench) -> None:
    message = bench.message()
    await bench.clock.advance(timedelta(days=2).total_seconds())
    assert await bench.deliver(message) == "execution_token_rejected"
    (letter,) = await bench.deliveries.letters()
    assert (letter["run_id"], letter["engine"]) == ("r1", "flow"), "what can be read helps to find the run"
    assert bench.api.calls == [], "the token is not shown to anybody"


async def test_a_slow_clock_gives_no_genuine_job_up(bench: Bench) -> None:
    message = bench.message()
    bench.clock.skew(-300)
    assert await bench.deliver(message) == "completed"
    assert await bench.deliveries.letters() == []


@pytest.mark.parametrize("change", [{"engine": "other"}, {"payload": 2}, {"callback_url": "https://evil.test"}])
async def test_a_payload_that_is_not_what_was_signed_is_not_retried(bench: Bench, change: dict[str, Any]) -> None:
    payload = {**bench.payload, **change}
    assert await bench.deliver(bench.message(payload=payload)) == "execution_claims_mismatch"
    assert bench.api.calls == []


async def test_a_message_of_another_job_than_its_payload_ends_the_run(bench: Bench) -> None:
    assert await bench.deliver(bench.message(job_id="r1.2")) == "execution_message_id_mismatch"
    assert await bench.state() is RunState.DEAD_LETTERED


@pytest.mark.parametrize(
    "change",
    [
        {"engine": ...}, {"engine": 5}, {"spec": ...}, {"spec": []}, {"timeout_ms": 0}, {"timeout_ms": "60000"},
        {"timeout_ms": True}, {"timeout_ms": 1.5}, {"max_attempts": 0}, {"max_attempts": ...},
        {"flow_version": [1, 0, 0]}, {"flow_etag": "x"}, {"artifact": {}},
    ],
)  # fmt: skip
async def test_a_genuine_job_of_the_wrong_shape_ends_the_run(bench: Bench, change: dict[str, Any]) -> None:
    payload = bench.signed(**change)
    assert await bench.deliver(bench.message(payload=payload)) == "invalid_execution_request"
    record = await bench.api.bench.record()
    assert (record.state, record.failure_class) == (RunState.DEAD_LETTERED, "malformed_message")
    assert bench.engine.runs == []


async def test_a_large_job_is_read_beside_the_loop(bench: Bench) -> None:
    payload = bench.signed(payload="x" * LOOP_CHARACTERS)
    worker = bench.worker()
    assert await asyncio.wait_for(worker.deliver(bench.message(payload=payload)), 30) == "completed"


async def test_data_of_just_the_largest_size_is_worked(bench: Bench) -> None:
    """BR-10"""
    short = len(json.dumps({**bench.api.bench.publisher.messages[-1][1], "payload": bench.signed(payload="")}))
    data = {"payload": bench.signed(payload="x" * (MESSAGE_DATA_BYTES - short))}
    body = json.dumps({**bench.api.bench.publisher.messages[-1][1], **data}).encode()
    assert len(body) == MESSAGE_DATA_BYTES
    assert await asyncio.wait_for(bench.worker().deliver(envelope(body)), 60) == "completed"
    assert await bench.deliver(envelope(body + b" ", message_id="1002")) == "message_too_large"


async def test_work_beyond_a_clients_default_timeout_succeeds(bench: Bench) -> None:
    """BR-53: 300 s is what an HTTP client allows where nobody says anything else."""

    async def long(_context: RunContext) -> RunResult:
        await bench.clock.sleep(3000)
        return RunResult(ProgressStatus.COMPLETED)

    bench.deliveries.settings = settings(
        request_timeout=3600, process_timeout=3570, run_timeout=3540, claim_retention=timedelta(days=1)
    )
    bench.engine.work = long
    payload = bench.signed(timeout_ms=3_540_000)
    assert await bench.deliver(bench.message(payload=payload)) == "completed"
    assert await bench.state() is RunState.SUCCEEDED


def test_every_end_of_an_attempt_has_an_outcome() -> None:
    assert set(CODES) == set(AttemptKind) - {AttemptKind.STOPPED}
    assert set(CODES.values()) | set(REFUSALS.values()) <= set(OUTCOMES)


async def test_closing_ends_the_engines_processes(bench: Bench) -> None:
    closed = asyncio.Event()

    async def stop() -> None:
        closed.set()

    workload = bench.worker().deps.workload
    assert isinstance(workload, ExecutionWorkload)
    await replace(workload, stop_engines=stop).close()
    assert closed.is_set()
