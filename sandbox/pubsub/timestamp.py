"""Times as Google's JSON writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with 0, 3 or 6 digits of fraction, whichever is exact."""
    digits = moment.microsecond
    timespec = "seconds" if not digits else "microseconds" if digits % 1000 else "milliseconds"
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec)}Z"
