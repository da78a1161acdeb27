"""What a benchmark prints: one line a comparison, as a ratio with its goal, and the spread behind it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spread:
    """What was measured, round by round."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return "/".join(_short(value) for value in (min(self.values), self.median, max(self.values)))


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; `ratio` None: not measured, `why` says why."""

    measure: str
    peer: str
    ours: str = "-"
    theirs: str = "-"
    ratio: float | None = None
    goal: str = "none"
    reached: bool | None = None
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        ratio = self.why if self.ratio is None else f"{self.ratio:.2f}"
        reached = "-" if self.reached is None else "yes" if self.reached else "NO"
        return (self.measure, self.ours, self.peer, self.theirs, ratio, self.goal, reached)


def at_most(measure: str, peer: str, ours: Spread, theirs: Spread, limit: float | None = None) -> Row:
    """Ours over theirs, of something that should be small."""
    ratio = ours.median / theirs.median
    goal, reached = ("none", None) if limit is None else (f"<= {limit:g} x", ratio <= limit)
    return Row(measure, peer, str(ours), str(theirs), ratio, goal, reached)


def cheaper(measure: str, peer: str, ours: Spread, theirs: Spread, least: float | None = None) -> Row:
    """Theirs over ours, of something that should be small."""
    return _at_least(measure, peer, ours, theirs, theirs.median / ours.median, least, "x cheaper")


def more(measure: str, peer: str, ours: Spread, theirs: Spread, least: float | None = None) -> Row:
    """Ours over theirs, of something that should be large."""
    return _at_least(measure, peer, ours, theirs, ours.median / theirs.median, least, "x")


def left_out(measure: str, peer: str, why: str) -> Row:
    """A ratio that this machine cannot give."""
    return Row(measure, peer, why=f"left out: {why}")


@dataclass
class Table:
    """Rows as they come; printed once, at the end."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def add(self, *rows: Row) -> None:
        self.rows += rows

    def show(self) -> None:
        head = ("measure (min/median/max)", "ours", "peer", "peer's", "ratio", "goal", "reached")
        lines = [head, *(row.cells() for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        print(f"\n{self.title}\n")
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _at_least(
    measure: str, peer: str, ours: Spread, theirs: Spread, ratio: float, least: float | None, unit: str
) -> Row:
    goal, reached = ("none", None) if least is None else (f">= {least:g} {unit}", ratio >= least)
    return Row(measure, peer, str(ours), str(theirs), ratio, goal, reached)


def _short(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
