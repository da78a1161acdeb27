"""When each job is due, and how its runs ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sandbox.scheduler.declared import Job

MISSED_AFTER: Final = timedelta(seconds=60)
"""A run that is later than this, because the machine slept or was off, is missed and not made up for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one run ended.

    Attributes:
        job: its name.
        scheduled: when it was due.
        tries: calls that were made.
        status: of the last answer; None where there was none.
        error: why the last try failed; None where it did not.
    """

    job: str
    scheduled: datetime
    tries: int
    status: int | None
    error: str | None


@dataclass(slots=True)
class JobState:
    """One job at work.

    Attributes:
        job: as declared now.
        due: next due time; None while paused.
        running: True while a scheduled run goes on.
        last: the run that ended last; None before the first.
    """

    job: Job
    due: datetime | None
    running: bool = False
    last: Run | None = None


Due = tuple[JobState, datetime]
"""A job and the time at which it was due."""


class JobTable:
    """All declared jobs."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobState] = {}

    def follow(self, declared: Mapping[str, Job], now: datetime) -> None:
        """Takes over what is declared: new and changed jobs are due from now on, removed ones no more."""
        for name in self.jobs.keys() - declared.keys():
            del self.jobs[name]
        for name, job in declared.items():
            state = self.jobs.get(name)
            if state is None:
                self.jobs[name] = JobState(job, _due(job, now))
            elif state.job != job:
                state.job, state.due = job, _due(job, now)

    def take_due(self, now: datetime) -> tuple[list[Due], list[Due]]:
        """Jobs to run now with their due times, and those whose run is left out: missed, or the last one still goes on.

        Each is then due at its next time after now, so that nothing is made up for.
        """
        to_run: list[Due] = []
        left_out: list[Due] = []
        for state in self.jobs.values():
            if state.due is None or state.due > now:
                continue
            late = now - state.due > MISSED_AFTER
            (left_out if late or state.running else to_run).append((state, state.due))
            state.due = _due(state.job, now)
        return to_run, left_out

    def next_due(self) -> datetime | None:
        """The earliest due time of all; None where nothing is due."""
        return min((state.due for state in self.jobs.values() if state.due is not None), default=None)


def _due(job: Job, now: datetime) -> datetime | None:
    return None if job.paused else job.schedule.next_after(now)
