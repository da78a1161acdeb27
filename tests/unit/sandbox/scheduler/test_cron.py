"""Cron fields, days, and clocks that change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.scheduler.cron import InvalidSchedule, parse_schedule


def due(schedule: str, after: str, zone: str = "Etc/UTC") -> str:
    found = parse_schedule(schedule, zone).next_after(datetime.fromisoformat(after))
    return found.isoformat(timespec="minutes")


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01+00:00"),
        ("* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01+00:00"),
        ("*/15 * * * *", "2026-01-01T00:46:00Z", "2026-01-01T01:00+00:00"),
        ("5/20 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:45+00:00"),
        ("0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02T03:00+00:00"),
        ("30 9-17/4 * * *", "2026-01-01T09:30:00Z", "2026-01-01T13:30+00:00"),
        ("0 0 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T00:00+00:00"),
        ("0 0 31 * *", "2026-02-01T00:00:00Z", "2026-03-31T00:00+00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00+00:00"),
        ("0 12 * jun-AUG Mon", "2026-01-01T00:00:00Z", "2026-06-01T12:00+00:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00+00:00"),
        ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00+00:00"),
        ("0 0 * * 5-7", "2026-01-03T00:00:00Z", "2026-01-04T00:00+00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00+00:00"),
        ("0 0 */2 * fri", "2026-01-01T00:00:00Z", "2026-01-09T00:00+00:00"),
    ],
    ids=str,
)
def test_the_next_due_time_is_the_first_that_matches(schedule: str, after: str, expected: str) -> None:
    assert due(schedule, after) == expected


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T07:00+00:00"),
        ("0 9 * * *", "2026-12-01T00:00:00Z", "2026-12-01T08:00+00:00"),
        # 2026-03-29: 02:00 to 02:59 do not exist in Berlin.
        ("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30+00:00"),
        ("*/30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:00+00:00"),
        # 2026-10-25: 02:00 to 02:59 happen twice in Berlin.
        ("30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30+00:00"),
        ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30+00:00"),
        ("*/30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:00+00:00"),
    ],
)
def test_due_times_follow_the_local_clock_and_its_changes(schedule: str, after: str, expected: str) -> None:
    assert due(schedule, after, "Europe/Berlin") == expected


@pytest.mark.parametrize(
    ("schedule", "names"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("every 5 minutes", "3 fields"),
        ("* * * * * *", "6 fields"),
        ("60 * * * *", "minute '60'"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * * 13 *", "month '13'"),
        ("* * * foo *", "month 'foo'"),
        ("* * * * 8", "day of week '8'"),
        ("5-1 * * * *", "goes backwards"),
        ("*/0 * * * *", "step 0"),
        ("1,,2 * * * *", "cannot be read"),
        ("-1 * * * *", "cannot be read"),
        ("٣ * * * *", "cannot be read"),
        ("0 0 30 2 *", "no day that exists"),
    ],
)
def test_an_unreadable_schedule_is_refused_and_the_message_names_the_field(schedule: str, names: str) -> None:
    with pytest.raises(InvalidSchedule, match=names):
        parse_schedule(schedule)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="time zone"):
        parse_schedule("* * * * *", zone)


_FIELD = st.sampled_from(["*", "*/7", "0", "5", "1-5", "3,5", "2-9/3"])


@settings(max_examples=30, deadline=None)
@given(
    fields=st.tuples(
        _FIELD, _FIELD, st.sampled_from(["*", "1", "1-5", "28"]), st.just("*"), st.sampled_from(["*", "1-5"])
    ),
    zone=st.sampled_from(["Etc/UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    offset=st.integers(0, 730 * 24 * 60),
)
def test_no_due_time_is_left_out_and_none_is_invented(
    fields: tuple[str, str, str, str, str], zone: str, offset: int
) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=offset)
    schedule = parse_schedule(" ".join(fields), zone)
    found = schedule.next_after(start)
    assert found > start

    def matches(moment: datetime) -> bool:
        local = moment.astimezone(schedule.zone)
        at_time = local.minute in schedule.minutes and local.hour in schedule.hours
        return at_time and schedule._on(local) and not (local.fold and not schedule.any_hour)

    minute = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
    first = next(moment for step in range(60 * 24 * 40) if matches(moment := minute + timedelta(minutes=step)))
    assert found == first
