"""The HTTP client of the callbacks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from runtime.contract.names import CALLBACK_CANCELLATION_PATH, CALLBACK_EVENTS_PATH, CALLBACK_PROGRESS_PATH
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
from runtime.execution.job import Job
from runtime.execution.meters import Meters
from runtime.execution.values import one_line
from runtime.ports.clock import Clock
from runtime.ports.tracing import carried

ANSWER_BYTES: Final = 64 * 1024
"""Largest answer that is read; a longer one is no answer of the API."""
FIRST_PAUSE: Final = 0.1
"""Upper end of the first pause, seconds; it doubles with every try."""
LONGEST_PAUSE: Final = 5.0
"""Upper end of every pause, seconds."""
LONGEST_RETRY_AFTER: Final = 30.0
"""More than this many seconds of a `Retry-After` are not waited: the lease would be at risk."""
CONNECT_SECONDS: Final = 3.0

_REFUSED: Final = frozenset({400, 401, 403, 404, 413, 422})


class _Progress(msgspec.Struct):
    accepted: bool
    status: RunState
    lease_acquired: bool | None = None
    lease_ms_left: int | None = None
    attempt: int = 0
    next_sequence: int = 0
    cancel_requested: bool = False


class _Events(msgspec.Struct):
    accepted: bool
    next_sequence: int


class _Cancellation(msgspec.Struct):
    cancel_requested: bool
    ended: bool


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""


_Answer = TypeVar("_Answer", _Progress, _Events, _Cancellation)


class _TryAgain(Exception):
    """One try gave no answer of the API, or one that asks for patience."""

    def __init__(self, fault: str, wait: float = 0.0) -> None:
        super().__init__(fault)
        self.wait = wait


class CallbackRules(Struct, frozen=True, kw_only=True):
    """How callbacks are sent.

    Attributes:
        version: of this program, for the User-Agent.
        timeout: limit of one try.
        retries: tries after the first, where no time is given; 0: none.
    """

    version: str
    timeout: timedelta = timedelta(seconds=5)
    retries: int = 3


def callbacks_of_jobs(
    session: aiohttp.ClientSession, rules: CallbackRules, clock: Clock, meters: Meters
) -> Callable[[Job], ExecutionCallbacks]:
    """How the jobs of a process report, each to the API that its token names; see ExecutionCallbacks."""
    return lambda job: ExecutionCallbacks(session, job.callback_url, job.token, clock=clock, rules=rules, meters=meters)


class ExecutionCallbacks:
    """Sends the callbacks of one job.

    Args:
        session: of the process; its own limits are not used.
        base_url: the API's address, without a path.
        token: the job's; sent as bearer, never logged.
        clock: measures and waits.
        rules: limits.
        meters: counts retries; None counts nothing.
        jitter: between 0 and its argument; the random module's by default.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        token: str,
        *,
        clock: Clock,
        rules: CallbackRules,
        meters: Meters | None = None,
        jitter: Callable[[float], float] = lambda most: random.uniform(0, most),  # noqa: S311 - spreads retries
    ) -> None:
        self._session = session
        self._base = base_url.rstrip("/")
        self._clock = clock
        self._rules = rules
        self._meters = meters
        self._jitter = jitter
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": f"holdfast-executor/{rules.version}",
            "Accept-Encoding": "identity",
        }

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        """See Callbacks."""
        answer, sent_at = await self._send(CALLBACK_PROGRESS_PATH, encode_progress(request), _Progress, until)
        return ProgressAnswer(
            accepted=answer.accepted,
            status=answer.status,
            lease_acquired=answer.lease_acquired,
            lease_ms_left=answer.lease_ms_left,
            attempt=answer.attempt,
            next_sequence=answer.next_sequence,
            cancel_requested=answer.cancel_requested,
            sent_at=sent_at,
        )

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        """See Callbacks."""
        answer, _ = await self._send(CALLBACK_EVENTS_PATH, encode_events(request), _Events, until)
        return answer.next_sequence

    async def cancellation(self, *, wait: int) -> Cancellation:
        """See Callbacks."""
        seconds = wait + self._rules.timeout.total_seconds()
        try:
            answer, _ = await self._try(f"{CALLBACK_CANCELLATION_PATH}?wait={wait}", None, _Cancellation, seconds)
        except _TryAgain as again:
            raise CallbackUnavailable(f"the API does not say whether the run is to stop: {again}") from None
        return Cancellation(cancel_requested=answer.cancel_requested, ended=answer.ended)

    async def _send(self, path: str, body: bytes, kind: type[_Answer], until: Until | None) -> tuple[_Answer, float]:
        tries = 0
        fault = "there was no time left for it"
        while (seconds := self._seconds(until)) > 0:
            try:
                return await self._try(path, body, kind, seconds)
            except _TryAgain as again:
                fault = str(again)
                pause = max(again.wait, self._jitter(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 16))))
            tries += 1
            if until is None and tries > self._rules.retries:
                break
            await self._clock.sleep(min(pause, self._seconds(until, pause)))
            if self._meters is not None:
                self._meters.callback_retries.inc()
        raise CallbackUnavailable(f"the callback {path} was not answered after {tries} tries: {fault}")

    def _seconds(self, until: Until | None, most: float | None = None) -> float:
        limit = most if most is not None else self._rules.timeout.total_seconds()
        return limit if until is None else min(limit, until() - self._clock.monotonic())

    async def _try(self, path: str, body: bytes | None, kind: type[_Answer], seconds: float) -> tuple[_Answer, float]:
        """One try, with its time: a POST of the body, or a GET where there is none."""
        sent_at = self._clock.monotonic()
        timeout = aiohttp.ClientTimeout(total=seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            async with self._session.request(
                "GET" if body is None else "POST",
                self._base + path,
                data=body,
                headers={**self._headers, **carried()},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                data = await _bounded(response.content)
                status, headers = response.status, response.headers
        except TimeoutError:
            raise _TryAgain(f"no answer within {seconds:.3g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _TryAgain(f"no connection: {type(error).__name__}") from None
        if 200 <= status < 300:
            try:
                return msgspec.json.decode(data, type=kind), sent_at
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise _TryAgain(f"status {status} with an answer that cannot be read") from None
        _raise_final(path, status, data)
        raise _TryAgain(f"status {status}", _retry_after(headers, self._clock))


def encode_progress(request: ProgressRequest) -> bytes:
    """The body of a progress callback."""
    body: dict[str, object] = {
        name: value
        for name in ProgressRequest.__struct_fields__
        if name != "result" and (value := getattr(request, name)) is not None
    }
    if request.result is not None:
        body["result"] = msgspec.Raw(request.result)
    return msgspec.json.encode(body)


def encode_events(request: EventsRequest) -> bytes:
    """The body of an events callback."""
    head = msgspec.json.encode({"job_id": request.job_id, "lease_token": request.lease_token})
    return head[:-1] + b',"events":[' + b",".join(request.events.encoded()) + b"]}"


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    data = bytearray()
    async for chunk in content.iter_chunked(ANSWER_BYTES):
        data += chunk
        if len(data) > ANSWER_BYTES:
            raise _TryAgain(f"an answer of more than {ANSWER_BYTES} bytes")
    return bytes(data)


def _raise_final(path: str, status: int, data: bytes) -> None:
    try:
        problem = msgspec.json.decode(data, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        problem = _Problem()
    text = f"the callback {path} was answered with {status} {one_line(f'{problem.code} {problem.detail}', 300)}"
    if status == 409 and problem.code == LeaseNotCurrent.code:
        raise LeaseNotCurrent(text)
    if status == 409 and problem.code == SequenceGap.code:
        raise SequenceGap(text)
    if status in _REFUSED:
        raise CallbackRefused(text, status=status)


def _retry_after(headers: Mapping[str, str], clock: Clock) -> float:
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:9])
    else:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (aware - clock.now()).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
