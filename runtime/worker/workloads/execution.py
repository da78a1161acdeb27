"""Execution: a message carries a signed job; one attempt at its run is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import aiohttp
from msgspec import Struct

from runtime.contract.envelope import DispatchMessage, EnvelopeError, PushEnvelope, decode_data, parse_dispatch
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.states import FailureClass
from runtime.contract.version import VERSION
from runtime.execution.attempt import AttemptTools, run_attempt
from runtime.execution.batcher import BatchRules
from runtime.execution.callbacks import CallbackRules, callbacks_of_jobs
from runtime.execution.dead_letter import report_dead_letter
from runtime.execution.job import Job, selectors_in
from runtime.execution.opened_engines import open_engines
from runtime.execution.outcome import AttemptKind
from runtime.identity.job_token import JobClaims, JobRefused, JobVerifier
from runtime.identity.keys import pem_of_environment
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.worker.workload import Ended, JobFacts, UnusableMessage

LOOP_CHARACTERS: Final = 256 * 1024
"""Largest encoded data that is decoded and verified on the event loop; more would keep heartbeats waiting."""
FACT_CHARACTERS: Final = 200
"""Longest text of an unverified payload that is put into a dead letter."""

CODES: Final[Mapping[AttemptKind, str]] = MappingProxyType(
    {
        AttemptKind.DONE: "completed",
        AttemptKind.ALREADY_TERMINAL: "completed",
        AttemptKind.LEASE_BUSY: "run_lease_busy",
        AttemptKind.NOT_ENOUGH_TIME: "not_enough_time",
        AttemptKind.API_UNAVAILABLE: "run_api_unavailable",
        AttemptKind.LEASE_LOST: "run_lease_lost",
        AttemptKind.REFUSED: "execution_failed",
        AttemptKind.UNACKNOWLEDGED: "callback_unacknowledged",
        AttemptKind.ENGINE_ERROR: "execution_failed",
    }
)
"""Outcome of every end of an attempt but STOPPED, which leaves the reason to who stopped it.

REFUSED is a retry: the worker has just verified the token, so a refusal can also be an address that is not the API.
"""

REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job_token_invalid": "execution_token_rejected",
        "job_token_expired": "execution_token_rejected",
        "job_payload_mismatch": "execution_claims_mismatch",
    }
)
"""Outcome of every refusal of a job."""


class ExecutionWorkload(Struct, frozen=True):
    """Reads jobs and makes attempts.

    Attributes:
        verifier: of the API's signatures.
        tools: of every attempt.
        run_timeout: longest that any run may take in one delivery.
        stop_engines: called once, when the worker closes.
    """

    verifier: JobVerifier
    tools: AttemptTools
    run_timeout: timedelta
    stop_engines: Callable[[], Awaitable[None]]
    failed_code: str = "execution_failed"

    async def read(self, message: PushEnvelope) -> ExecutionJob:
        """See Workload."""
        if len(message.data_encoded) <= LOOP_CHARACTERS:
            return self._read(message)
        return await asyncio.to_thread(self._read, message)

    async def close(self) -> None:
        """See Workload."""
        await self.stop_engines()

    def _read(self, message: PushEnvelope) -> ExecutionJob:
        try:
            dispatch = parse_dispatch(decode_data(message.data_encoded))
        except EnvelopeError as error:
            raise UnusableMessage(str(error), code=error.code) from error
        facts = _facts(dispatch)
        try:
            claims = self.verifier.verify(dispatch.payload, self.tools.clock.now())
        except JobRefused as error:
            raise UnusableMessage(str(error), code=REFUSALS[error.code], facts=facts) from error
        try:
            job = self._job(dispatch, claims)
        except UnusableMessage as error:
            # The token holds, so the run can at least be told.
            error.facts, error.job = facts, ExecutionJob(self.tools, _bare_job(dispatch, claims), facts)
            raise
        return ExecutionJob(self.tools, job, facts)

    def _job(self, dispatch: DispatchMessage, claims: JobClaims) -> Job:
        if dispatch.job_id != claims.job_id:
            raise UnusableMessage(
                f"the message is of job {dispatch.job_id[:FACT_CHARACTERS]!r}, its payload of {claims.job_id}",
                code="execution_message_id_mismatch",
            )
        payload = dispatch.payload
        engine, spec = payload.get("engine"), payload.get("spec")
        if not isinstance(engine, str) or not isinstance(spec, dict):
            raise UnusableMessage(
                f"job {claims.job_id} must have an `engine` text and a `spec` object", code="invalid_execution_request"
            )
        selected = selectors_in(payload)
        if selected:
            raise UnusableMessage(
                f"job {claims.job_id} has {', '.join(selected)}, but a job carries its whole definition in `spec`",
                code="invalid_execution_request",
            )
        milliseconds, attempts = _whole(payload, "timeout_ms", claims), _whole(payload, "max_attempts", claims)
        return Job(
            run_id=claims.run_id,
            job_id=claims.job_id,
            app_id=claims.app_id,
            engine=engine,
            spec=spec,
            input=payload.get("payload"),
            timeout=min(self.run_timeout, timedelta(milliseconds=min(milliseconds, 86_400_000))),
            max_attempts=attempts,
            callback_url=claims.callback_url,
            token=_token(payload),
        )


class ExecutionJob(Struct, frozen=True):
    """A verified job."""

    tools: AttemptTools
    job: Job
    facts: JobFacts

    async def run(self, *, deadline: float, stop: asyncio.Event) -> Ended | None:
        """See workload.Job."""
        attempt = await run_attempt(self.job, self.tools, deadline=deadline, stop=stop)
        if attempt.kind is AttemptKind.STOPPED:
            return None
        return Ended(CODES[attempt.kind], attempt.detail, attempt.failure_class)

    async def give_up(
        self, failure_class: FailureClass, last: FailureClass | None, error: str, *, deadline: float
    ) -> None:
        """See workload.Job."""
        await report_dead_letter(self.job, self.tools, failure_class, last, error, deadline)


async def open_execution(
    settings: WorkerSettings, session: aiohttp.ClientSession, clock: Clock, metrics: Metrics
) -> ExecutionWorkload:
    """The workload of a process. Entry points are looked up before anything is served.

    Raises:
        EngineMissing: with every engine that is not there.
        UnusableKey: of BACKEND_PUB or BACKEND_PREVIOUS_PUB.
        ProcessUnavailable: no process can be started to look.
    """
    opened = await open_engines(
        settings.engines,
        settings.http_hosts,
        clock,
        metrics.isolated_processes,
        run_memory=settings.run_memory,
    )
    rules = CallbackRules(version=VERSION, timeout=settings.callback_timeout, retries=settings.callback_retries)
    tools = AttemptTools(
        clock=clock,
        connect=callbacks_of_jobs(session, rules, clock, metrics),
        engine=opened.engines.get,
        lease=settings.run_lease,
        park=settings.park_budget,
        batch=BatchRules(interval=settings.batch_interval, size=settings.batch_size),
        meters=metrics,
    )
    verifier = JobVerifier(pem_of_environment(settings.backend_pub), settings.backend_kid, settings.previous_key)
    return ExecutionWorkload(verifier, tools, settings.run_timeout, opened.stop)


def _facts(dispatch: DispatchMessage) -> JobFacts:
    def text(name: str) -> str | None:
        value = dispatch.payload.get(name)
        return value[:FACT_CHARACTERS] if isinstance(value, str) else None

    attempts = dispatch.payload.get("max_attempts")
    return JobFacts(
        run_id=text("run_id"),
        job_id=dispatch.job_id[:FACT_CHARACTERS],
        app_id=text("app_id"),
        engine=text("engine"),
        max_attempts=attempts if type(attempts) is int and attempts > 0 else None,
    )


def _bare_job(dispatch: DispatchMessage, claims: JobClaims) -> Job:
    """What reporting needs of a job that cannot run."""
    return Job(
        run_id=claims.run_id,
        job_id=claims.job_id,
        app_id=claims.app_id,
        engine="",
        spec={},
        input=None,
        timeout=timedelta(),
        max_attempts=1,
        callback_url=claims.callback_url,
        token=_token(dispatch.payload),
    )


def _token(payload: Mapping[str, object]) -> str:
    return str(payload["executor_jwt"])


def _whole(payload: Mapping[str, object], name: str, claims: JobClaims) -> int:
    value = payload.get(name)
    if type(value) is not int or value < 1:
        raise UnusableMessage(
            f"{name} of job {claims.job_id} must be a whole number from 1", code="invalid_execution_request"
        )
    return value
