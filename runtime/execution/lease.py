"""The lease of a run: the right of one attempt to work on it, as the API's store grants and judges it."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from runtime.contract.errors import HoldfastError
from runtime.contract.states import TERMINAL, FailureClass, ProgressStatus, RunState
from runtime.execution.callback_messages import (
    CallbackError,
    CallbackRefused,
    Callbacks,
    CallbackUnavailable,
    LeaseNotCurrent,
    ProgressAnswer,
    ProgressRequest,
)
from runtime.execution.cancellation import until_stopped
from runtime.execution.tasks import end, first_done
from runtime.ports.clock import Clock

RENEWAL_MAX: Final = timedelta(seconds=60)
"""Longest time between two renewals; a third of the lease where that is shorter."""
PARK_POLL_SECONDS: Final = 15.0
"""How often a parked attempt asks again: the holder may end long before its lease would lapse."""
PARK_POLL_LEAST: Final = 1.0
"""Never more often than this."""

log = structlog.get_logger()


class Taking(StrEnum):
    """How asking for a lease ended."""

    TAKEN = "taken"
    """The lease is ours."""
    BUSY = "busy"
    """Another attempt held it for all of the park budget, or for so long that a whole run no longer fits."""
    ENDED = "ended"
    """The run has ended, or a newer generation of it replaced this one."""
    STOPPED = "stopped"
    """The process is draining."""


class Take(Struct, frozen=True):
    """The end of asking for a lease.

    Attributes:
        how: see Taking.
        state: stored state of the run.
    """

    how: Taking
    state: RunState


class Parking(Struct, frozen=True, kw_only=True):
    """How long an attempt waits for a lease that another one holds.

    Attributes:
        until: monotonic end of the park budget.
        latest_start: monotonic time after which a run that was waited for no longer fits.
    """

    until: float
    latest_start: float


class RunLease:
    """One attempt's lease.

    Args:
        callbacks: the API.
        job_id: the run's generation.
        clock: this machine's monotonic clock counts what is left; only the store judges who holds it.
        duration: how long a lease is asked for.

    Attributes:
        token: random; the same in every request of this attempt, so that repeating one is safe.
        cancelled: set when the run is to stop, whoever wants it.
        attempt: of the run, this one included; 0 before it was taken.
        next_sequence: of the next event when the lease was taken.
        cancel_requested: whether the run's owner asked for the stop.
    """

    def __init__(self, callbacks: Callbacks, job_id: str, clock: Clock, duration: timedelta) -> None:
        self._callbacks = callbacks
        self._job_id = job_id
        self._clock = clock
        self._duration = duration
        self._valid_until = clock.monotonic()
        self._note: tuple[int | None, str | None] = (None, None)
        self.renewal = min(RENEWAL_MAX, duration / 3).total_seconds()
        self.token = secrets.token_hex(16)
        self.cancelled = asyncio.Event()
        self.attempt = 0
        self.next_sequence = 0
        self.cancel_requested = False

    def valid_until(self) -> float:
        """Monotonic time until which the lease is surely ours."""
        return self._valid_until

    def usable_until(self) -> float:
        """Monotonic time until which work under the lease may still be begun: one renewal before its end."""
        return self._valid_until - self.renewal

    def note(self, progress: int | None, step: str | None) -> None:
        """What the next renewal reports beside the lease."""
        self._note = (progress, step)

    async def take(self, parking: Parking, stop: asyncio.Event) -> Take:
        """Asks for the lease, and waits while another attempt holds it.

        Raises:
            CallbackUnavailable: no answer; whether it was granted is unknown, it lapses.
            CallbackRefused: the token or the run is not known.
        """
        while not stop.is_set():
            answer = await self._ask()
            if answer.lease_acquired:
                self._keep(answer)
                self.attempt, self.next_sequence = answer.attempt, answer.next_sequence
                return Take(Taking.TAKEN, answer.status)
            if answer.status in TERMINAL or answer.lease_ms_left is None:
                return Take(Taking.ENDED, answer.status)
            now = self._clock.monotonic()
            wait = min(max(answer.lease_ms_left / 1000, PARK_POLL_LEAST), PARK_POLL_SECONDS)
            if now + wait > min(parking.until, parking.latest_start):
                # The rest is waited out without asking: a lease that came free now is left to the next delivery.
                await self._park(parking.until - now, stop)
                return Take(Taking.STOPPED if stop.is_set() else Taking.BUSY, answer.status)
            log.info("run_lease_busy", job_id=self._job_id, lease_ms_left=answer.lease_ms_left)
            await self._park(wait, stop)
        return Take(Taking.STOPPED, RunState.RUNNING)

    async def keep(self) -> HoldfastError:
        """Renews the lease until it is lost, and says how it was lost. Ends by cancellation otherwise."""
        while True:
            await self._clock.sleep(self.renewal)
            try:
                answer = await self._ask(renewing=True)
            except CallbackUnavailable:
                return LeaseNotCurrent(f"the lease of {self._job_id} lapsed: it could not be renewed in time")
            except (CallbackRefused, LeaseNotCurrent) as error:
                return error
            if not answer.lease_acquired:
                return LeaseNotCurrent(f"the lease of {self._job_id} is not ours any more, the run is {answer.status}")
            self._keep(answer)

    async def heed(self) -> None:
        """Waits for the run's owner to stop it, which the next renewal would say only later."""
        said = await until_stopped(self._callbacks, self._clock)
        if said is not None and said.cancel_requested:
            self._cancel()

    async def release(self, cause: FailureClass | None, seconds: float) -> None:
        """Gives the lease back, so that the next attempt need not wait for its end. Best effort: it lapses otherwise.

        Args:
            cause: why the attempt did not end the run; kept as the true cause should it be the last one.
            seconds: longest that this may take.
        """
        limit = self._clock.monotonic() + seconds
        try:
            await self._callbacks.progress(
                replace(self._request(), lease_duration_ms=0, last_failure_class=cause), until=lambda: limit
            )
        except CallbackError as error:
            log.info("run_lease_not_released", job_id=self._job_id, code=error.code)

    async def _ask(self, *, renewing: bool = False) -> ProgressAnswer:
        return await self._callbacks.progress(self._request(), until=self.valid_until if renewing else None)

    def _request(self) -> ProgressRequest:
        progress, step = self._note
        return ProgressRequest(
            job_id=self._job_id,
            lease_token=self.token,
            status=ProgressStatus.RUNNING,
            lease_duration_ms=round(self._duration.total_seconds() * 1000),
            progress=progress,
            current_step=step,
        )

    def _keep(self, answer: ProgressAnswer) -> None:
        left = self._duration.total_seconds()
        if answer.lease_ms_left is not None:
            left = min(left, answer.lease_ms_left / 1000)
        # Counted from before the request left: the store's lease began later, never earlier.
        self._valid_until = answer.sent_at + left
        if answer.cancel_requested:
            self._cancel()

    def _cancel(self) -> None:
        self.cancel_requested = True
        self.cancelled.set()

    async def _park(self, seconds: float, stop: asyncio.Event) -> None:
        waiting = asyncio.create_task(stop.wait())
        try:
            await first_done(self._clock, seconds, waiting)
        finally:
            await end(waiting)
