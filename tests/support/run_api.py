"""The API's real callbacks over a store in memory, as an attempt's Callbacks: the wire's bytes, without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec

from runtime.api.problem import Problem
from runtime.api.report import read_events, read_progress
from runtime.contract.errors import HoldfastError
from runtime.contract.states import RunState
from runtime.execution.callback_messages import (
    CallbackRefused,
    CallbackUnavailable,
    Cancellation,
    EventsRequest,
    LeaseNotCurrent,
    ProgressAnswer,
    ProgressRequest,
    SequenceGap,
    Until,
)
from runtime.execution.callbacks import encode_events, encode_progress
from runtime.execution.job import Job
from tests.support.api_bench import ApiBench

LEASE = timedelta(seconds=150)


class RunApi:
    """One run of the API bench, called as its worker calls it.

    Attributes:
        bench: the API.
        calls: every progress body and batch that arrived, in order.
        delay: seconds that every request takes on its way.
        before: asked before a request is applied; what it returns is raised, None applies it.
        after: asked after a request was applied, as if its answer were lost; what it returns is raised.
    """

    def __init__(self, bench: ApiBench) -> None:
        self.bench = bench
        self.calls: list[dict[str, Any]] = []
        self.delay = 0.0
        self.before: Callable[[dict[str, Any]], HoldfastError | None] = lambda _body: None
        self.after: Callable[[dict[str, Any]], HoldfastError | None] = lambda _body: None

    @property
    def batches(self) -> list[list[dict[str, Any]]]:
        """The events that arrived, by batch."""
        return [body["events"] for body in self.calls if "events" in body]

    @property
    def statuses(self) -> list[str]:
        """The statuses that arrived, in order."""
        return [body["status"] for body in self.calls if "status" in body]

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        body = encode_progress(request)
        sent_at = self.bench.clock.monotonic()
        answer = await self._applied(
            body, lambda: self.bench.callbacks.progress(self._run(request.job_id), read_progress(body)), until
        )
        answer.pop("lease_expires_at", None)
        return ProgressAnswer(**{**answer, "status": RunState(answer["status"])}, sent_at=sent_at)

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        body = encode_events(request)
        answer = await self._applied(
            body, lambda: self.bench.callbacks.events(self._run(request.job_id), read_events(body)), until
        )
        return int(answer["next_sequence"])

    async def cancellation(self, *, wait: int) -> Cancellation:
        answer = await self.bench.cancellations.poll("r1", "r1.1", wait)
        return Cancellation(cancel_requested=bool(answer["cancel_requested"]), ended=bool(answer["ended"]))

    async def _applied(
        self, body: bytes, apply: Callable[[], Awaitable[dict[str, object]]], until: Until | None
    ) -> dict[str, Any]:
        """Like the HTTP client: an unavailable API is tried again every second while there is time."""
        clock = self.bench.clock
        while until is None or clock.monotonic() < until():
            try:
                return await self._once(body, apply)
            except CallbackUnavailable:
                if until is None:
                    raise
            await clock.sleep(1)
        raise CallbackUnavailable("no time left")

    async def _once(self, body: bytes, apply: Callable[[], Awaitable[dict[str, object]]]) -> dict[str, Any]:
        sent = msgspec.json.decode(body)
        if (fault := self.before(sent)) is not None:
            raise fault
        self.calls.append(sent)
        await self.bench.clock.sleep(self.delay)
        try:
            answer = await apply()
        except Problem as problem:
            for known in (LeaseNotCurrent, SequenceGap):
                if problem.code == known.code:
                    raise known(str(problem)) from None
            raise CallbackRefused(str(problem), status=problem.status) from None
        if (fault := self.after(sent)) is not None:
            raise fault
        return answer

    @staticmethod
    def _run(job_id: str) -> str:
        return job_id.partition(".")[0]


def job(**changes: Any) -> Job:
    """The job of run `r1`, changed."""
    fields: dict[str, Any] = {
        "run_id": "r1",
        "job_id": "r1.1",
        "app_id": "default",
        "engine": "scripted",
        "spec": {},
        "input": {"n": 1},
        "timeout": timedelta(seconds=60),
        "max_attempts": 3,
        "callback_url": "https://api.example",
        "token": "a.job.token",
    }
    return Job(**{**fields, **changes})


async def accepted(**options: Any) -> RunApi:
    """An API that has accepted run `r1`."""
    bench = ApiBench(run_lease=LEASE, **options)
    await bench.accept()
    return RunApi(bench)
