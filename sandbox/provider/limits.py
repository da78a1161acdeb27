"""Small checks that the products' rules are made of: ranges, durations, patterns, closed words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from sandbox.provider.faults import Failure
from sandbox.provider.unknown import is_unknown

_DURATION: Final = re.compile(r"(?P<seconds>[0-9]+(?:\.[0-9]{1,9})?)s", re.ASCII)


def at(inputs: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where any part of it is absent or, in a preview, not known yet."""
    value: Any = inputs
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if is_unknown(value) else value


def seconds_of(value: str) -> float | None:
    """Seconds of a duration as Google spells it, `3.5s`; None where it is none."""
    match = _DURATION.fullmatch(value)
    return float(match["seconds"]) if match else None


def in_range(inputs: Mapping[str, Any], path: str, low: float, high: float) -> Iterator[Failure]:
    """A number, where present, lies in `low`..`high`."""
    value = at(inputs, path)
    if value is not None and not low <= value <= high:
        yield Failure(path, f"{value:g} is refused; it must be {low:g} to {high:g}")


def lasts(inputs: Mapping[str, Any], path: str, low: float, high: float) -> Iterator[Failure]:
    """A duration, where present, lies in `low`..`high` seconds."""
    value = at(inputs, path)
    if value is None:
        return
    seconds = seconds_of(value)
    if seconds is None or not low <= seconds <= high:
        yield Failure(path, f"{value!r} is refused; it must be seconds with an s, {low:g}s to {high:g}s")


def matches(inputs: Mapping[str, Any], path: str, pattern: re.Pattern[str], rule: str) -> Iterator[Failure]:
    """A text, where present, has the form of `pattern`; `rule` says it in words."""
    value = at(inputs, path)
    if value is not None and not pattern.fullmatch(value):
        yield Failure(path, f"{value!r} is refused; it must be {rule}")


def one_of(inputs: Mapping[str, Any], path: str, words: Collection[str]) -> Iterator[Failure]:
    """A text, where present, is one of `words`."""
    value = at(inputs, path)
    if value is not None and value not in words:
        yield Failure(path, f"{value!r} is refused; it must be one of {', '.join(words)}")
