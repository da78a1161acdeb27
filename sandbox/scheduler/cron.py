"""Schedules: the five fields of cron, in a time zone.

`minute hour day-of-month month day-of-week`, each `*`, a number, a range `a-b`, a step `*/n` or `a-b/n`, or a list of
these; months and days also by their English names of three letters; Sunday is 0 and 7. Where both kinds of day are
limited, either of them suffices, as in every cron.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runtime.contract.errors import HoldfastError

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ITEM: Final = re.compile(r"(\*|(\w+)(?:-(\w+))?)(?:/(\d{1,3}))?", re.ASCII)
_HORIZON: Final = timedelta(days=366 * 9)
"""February 29 comes back after 8 years at the latest, around a century that is no leap year."""


class InvalidSchedule(HoldfastError):
    """A schedule or time zone that cannot be read, or that names no day."""

    code = "invalid_schedule"


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    """Names of `first`, `first + 1`, ..."""

    def parse(self, text: str) -> frozenset[int]:
        return frozenset(value for item in text.split(",") for value in self._item(item))

    def _item(self, item: str) -> range:
        found = _ITEM.fullmatch(item)
        if found is None:
            raise InvalidSchedule(f"{self.name} {item!r} cannot be read; write *, 5, 1-5, */10 or a list of these")
        whole, start, end, step = found.groups()
        low, high = self.first, self.last
        if whole != "*":
            low = self._number(start)
            # As in every cron, `5/10` goes on to the end of the field, and `5` alone does not.
            high = self._number(end) if end else (self.last if step else low)
        if low > high or step == "0":
            raise InvalidSchedule(f"{self.name} {item!r} goes backwards or has step 0; write the smaller number first")
        return range(low, high + 1, int(step or 1))

    def _number(self, text: str) -> int:
        if text.lower() in self.names:
            return self.first + self.names.index(text.lower())
        if not text.isdigit() or not self.first <= int(text) <= self.last:
            raise InvalidSchedule(f"{self.name} {text!r} is not within {self.first} to {self.last}")
        return int(text)


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is due."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """True where day of month and day of week are both limited."""
    any_hour: bool
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime:
        """The first due time after a moment, in UTC.

        A local time that a change of the clocks skips is not due. One that happens twice is due once, unless the
        schedule names every hour.

        Raises:
            InvalidSchedule: there is none in the next years, as with February 30.
        """
        at = moment.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = at + _HORIZON
        while at < end:
            local = at.astimezone(self.zone)
            if not self._on(local):
                midnight = datetime.combine(local.date() + timedelta(days=1), datetime.min.time(), self.zone)
                at = max(midnight.astimezone(UTC), at + timedelta(minutes=1))
            elif local.hour not in self.hours or (local.fold and not self.any_hour):
                at += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at
        raise InvalidSchedule("the schedule names no day that exists; check day and month")

    def _on(self, local: datetime) -> bool:
        if local.month not in self.months:
            return False
        in_month, in_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def parse_schedule(text: str, zone: str = "Etc/UTC") -> Schedule:
    """Reads a schedule.

    Args:
        text: five fields with spaces between.
        zone: name in the time zone database.

    Raises:
        InvalidSchedule: names the field and what it may be.
    """
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise InvalidSchedule(f"schedule {text!r} has {len(parts)} fields; write five, as in '*/5 * * * *'")
    try:
        where = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidSchedule(f"time zone {zone!r} is not known; write one as 'Europe/Berlin'") from error
    minutes, hours, days, months, weekdays = (field.parse(part) for field, part in zip(_FIELDS, parts, strict=True))
    schedule = Schedule(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not parts[2].startswith("*") and not parts[4].startswith("*"),
        any_hour=parts[1] == "*",
        zone=where,
    )
    schedule.next_after(datetime(2026, 1, 1, tzinfo=UTC))
    return schedule
