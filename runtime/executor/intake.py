"""What comes before the first byte of an answer: whether the call is taken, read, the API's, and in shape."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from typing import Final

from aiohttp import web
from msgspec import Struct

from runtime.contract.limits import JOB_BODY_BYTES
from runtime.contract.states import RunMode
from runtime.contract.strict_json import JsonError, parse_json
from runtime.execution.job import Job, selectors_in
from runtime.executor.deps import ExecutorDeps
from runtime.http.body import read_json_body
from runtime.http.problem import FieldFault, Problem, unavailable
from runtime.identity.job_token import JobClaims, JobRefused
from runtime.identity.payload_hash import TOKEN_FIELD

LOOP_BYTES: Final = 16 * 1024
"""Largest body that is decoded and verified on the event loop, which takes milliseconds; more would hold streams up."""
LONGEST_MILLISECONDS: Final = 86_400_000
LEASE_TOKEN_CHARACTERS: Final = 128

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="holdfast"'}


class Accepted(Struct, frozen=True, kw_only=True):
    """A call that may run.

    Attributes:
        job: verified.
        lease_token: of the lease that the API holds for the run; random where it sent none.
        latest: monotonic time after which no engine may work.
    """

    job: Job
    lease_token: str
    latest: float

    def __repr__(self) -> str:
        return f"Accepted(job={self.job!r}, latest={self.latest!r})"


class Intake:
    """Reads calls.

    Args:
        deps: of the executor.
    """

    def __init__(self, deps: ExecutorDeps) -> None:
        self._deps = deps
        self._thread = asyncio.Lock()

    async def read(self, request: web.Request) -> Accepted:
        """The job of a call.

        Raises:
            Problem: 503 while draining, 415, 413, 408 and 400 of the body, 401 of the token, 403 where the call is not
                what was signed, 422 of its shape.
        """
        arrived = self._deps.clock.monotonic()
        self._check_open()
        body = await read_json_body(request, self._deps.clock, JOB_BODY_BYTES)
        if len(body) <= LOOP_BYTES:
            job, lease_token = self._job(body)
        else:
            async with self._thread:  # two would take the interpreter from the loop for twice as long
                job, lease_token = await asyncio.to_thread(self._job, body)
        self._check_open()
        latest = arrived + self._deps.settings.run_timeout.total_seconds()
        return Accepted(job=job, lease_token=lease_token or secrets.token_hex(16), latest=latest)

    def _check_open(self) -> None:
        if not self._deps.lifecycle.accepting:
            raise unavailable("draining", "this instance is going away; another one takes the call")

    def _job(self, body: bytes) -> tuple[Job, str | None]:
        try:
            payload = parse_json(body)
        except JsonError as error:
            raise Problem(400, error.code, f"the body must be one JSON object in UTF-8, but it is {error}") from None
        if not isinstance(payload, dict):
            raise _misshapen([FieldFault("", "must be an object")])
        try:
            claims = self._deps.verifier.verify(payload, self._deps.clock.now())
        except JobRefused as error:
            mismatch = error.code == "job_payload_mismatch"
            raise Problem(
                403 if mismatch else 401, error.code, str(error), headers=None if mismatch else _CHALLENGE
            ) from None
        faults = _faults(payload)
        if faults:
            raise _misshapen(faults)
        return self._of(payload, claims), payload.get("lease_token")

    def _of(self, payload: dict[str, object], claims: JobClaims) -> Job:
        engine, spec, wanted, attempts = (payload[name] for name in ("engine", "spec", "timeout_ms", "max_attempts"))
        assert isinstance(engine, str) and isinstance(spec, dict)  # noqa: PT018, S101 - checked by _faults
        assert isinstance(wanted, int) and isinstance(attempts, int)  # noqa: PT018, S101 - checked by _faults
        return Job(
            run_id=claims.run_id,
            job_id=claims.job_id,
            app_id=claims.app_id,
            engine=engine,
            spec=spec,
            input=payload.get("payload"),
            timeout=min(self._deps.settings.run_timeout, timedelta(milliseconds=min(wanted, LONGEST_MILLISECONDS))),
            max_attempts=attempts,
            callback_url=claims.callback_url,
            token=str(payload[TOKEN_FIELD]),
        )


def _faults(payload: dict[str, object]) -> list[FieldFault]:
    faults = []
    if not isinstance(payload.get("engine"), str):
        faults.append(FieldFault("/engine", "must be the name of an engine"))
    if not isinstance(payload.get("spec"), dict):
        faults.append(FieldFault("/spec", "must be an object, empty for an entry point"))
    faults += [
        FieldFault(f"/{name}", "is not taken: a job carries its whole definition in `spec`")
        for name in selectors_in(payload)
    ]
    for name in ("timeout_ms", "max_attempts"):
        value = payload.get(name)
        if type(value) is not int or value < 1:
            faults.append(FieldFault(f"/{name}", "must be a whole number from 1"))
    mode = payload.get("execution_mode")
    if mode not in {RunMode.SYNC, RunMode.STREAM}:
        faults.append(FieldFault("/execution_mode", "must be sync or stream; other runs come to workers by the queue"))
    token = payload.get("lease_token")
    if token is not None and not (isinstance(token, str) and 0 < len(token) <= LEASE_TOKEN_CHARACTERS):
        faults.append(FieldFault("/lease_token", f"must be a text of at most {LEASE_TOKEN_CHARACTERS} characters"))
    return faults


def _misshapen(faults: list[FieldFault]) -> Problem:
    return Problem(422, "invalid_execution_request", "the body is no job that this executor can run", faults=faults)
