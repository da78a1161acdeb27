"""Durations as an environment spells them: the unit is in the variable's name."""

from __future__ import annotations

from datetime import timedelta


def whole_seconds(duration: timedelta) -> int:
    """The number that the timeout rules look at; a fraction is left out."""
    return duration // timedelta(seconds=1)


def in_seconds(duration: timedelta) -> str:
    """Whole seconds; a fraction is kept, so that reading it back refuses it instead of losing it."""
    return _count(duration, timedelta(seconds=1))


def in_milliseconds(duration: timedelta) -> str:
    """Whole milliseconds, see `in_seconds`."""
    return _count(duration, timedelta(milliseconds=1))


def _count(duration: timedelta, unit: timedelta) -> str:
    whole, rest = divmod(duration, unit)
    return str(duration / unit) if rest else str(whole)
