"""Due times: new, changed, paused, missed and overlapping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox.scheduler.declared import Job, read_job
from sandbox.scheduler.state import JobTable

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def declared(schedule: str = "* * * * *", **inputs: Any) -> dict[str, Job]:
    target = {"uri": "https://api.run.app/internal/tick"}
    return {"tick": read_job("tick", {"schedule": schedule, "httpTarget": target, **inputs})}


def table(**inputs: Any) -> JobTable:
    made = JobTable()
    made.follow(declared(**inputs), NOON)
    return made


def due_names(made: JobTable, now: datetime) -> tuple[list[str], list[str]]:
    to_run, left_out = made.take_due(now)
    return [state.job.name for state, _ in to_run], [state.job.name for state, _ in left_out]


def test_a_job_is_due_at_its_time_and_once() -> None:
    made = table()
    assert made.next_due() == NOON + MINUTE
    assert due_names(made, NOON + MINUTE - timedelta(seconds=1)) == ([], [])
    assert due_names(made, NOON + MINUTE) == (["tick"], [])
    assert due_names(made, NOON + MINUTE) == ([], [])
    assert made.next_due() == NOON + 2 * MINUTE


def test_a_run_that_was_missed_by_more_than_a_minute_is_not_made_up_for() -> None:
    made = table(schedule="0 * * * *")
    assert due_names(made, NOON + timedelta(hours=5, minutes=30)) == ([], ["tick"])
    assert made.next_due() == NOON + timedelta(hours=6)


def test_a_job_that_still_runs_is_not_started_again() -> None:
    made = table()
    made.jobs["tick"].running = True
    assert due_names(made, NOON + MINUTE) == ([], ["tick"])


def test_a_paused_job_is_never_due() -> None:
    made = table(paused=True)
    assert made.next_due() is None
    assert due_names(made, NOON + timedelta(days=1)) == ([], [])


def test_a_changed_schedule_counts_from_the_change_on() -> None:
    made = table()
    made.follow(declared("0 15 * * *"), NOON + MINUTE / 2)
    assert made.next_due() == NOON + timedelta(hours=3)


def test_an_unchanged_job_keeps_its_due_time_and_a_removed_one_is_gone() -> None:
    made = table()
    made.follow(declared(), NOON + 10 * MINUTE)
    assert made.next_due() == NOON + MINUTE
    made.follow({}, NOON)
    assert made.next_due() is None
