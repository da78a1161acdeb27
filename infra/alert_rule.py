"""An alert as data: when it opens, and the words that it comes with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GUIDE: Final = "docs/operations/alerts.md"
"""Where each alert has a section."""


class Severity(StrEnum):
    """How soon someone has to look."""

    CRITICAL = "CRITICAL"
    """Work stands still."""
    ERROR = "ERROR"
    """Work was given up, or callers see errors."""
    WARNING = "WARNING"
    """Work will stand still, or is late."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A metric of Google's is above a value.

    Attributes:
        filter: which time series.
        aligner: how the points of a period become one.
        period: seconds.
        above: the value that is not passed.
        lasting: seconds for which it has to hold; 0: at once.
        summed: True adds the series up.
    """

    filter: str
    aligner: str
    period: int
    above: int
    lasting: int = 0
    summed: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query in PromQL that has a result; `lasting` as in `Threshold`."""

    promql: str
    lasting: int = 0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the services' logs."""

    filter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One alert.

    Attributes:
        name: logical name, unique in a stack.
        title: one line, with what it is about.
        severity: how soon someone has to look.
        condition: when it opens.
        means: what is wrong.
        do: what to look at first.
        section: heading in `GUIDE`.
    """

    name: str
    title: str
    severity: Severity
    condition: Threshold | Query | LogLine
    means: str
    do: str
    section: str

    @property
    def text(self) -> str:
        """What the notification says, in Markdown."""
        return f"{self.means}\n\n**Do:** {self.do}\n\nMore in {GUIDE}, section “{self.section}”."
