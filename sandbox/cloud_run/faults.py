"""Faults that a test orders for the next instance of a service. The runtime knows nothing of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class Point(StrEnum):
    """Where in an instance a fault strikes."""

    DOCUMENTS_BEFORE = "documents.before"
    """Before a call reaches the document store."""
    DOCUMENTS_AFTER = "documents.after"
    """After the store has answered, before the caller hears of it."""
    HTTP_BEFORE = "http.before"
    """Before a request leaves the instance."""
    HTTP_AFTER = "http.after"
    """After the head of the answer has arrived, before the caller hears of it."""
    CLOCK = "clock"
    """The wall clock of the instance, for its whole life; SKEW alone."""


class Action(StrEnum):
    """What a fault does."""

    KILL = "kill"
    """The process ends at once, with SIGKILL."""
    ERROR = "error"
    """The call fails as if the connection had been lost."""
    DELAY = "delay"
    """The call takes longer."""
    SKEW = "skew"
    """The clock is wrong by so many seconds, fast where they are positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        point: where.
        action: what happens.
        match: part of what the call is named: `get COLLECTION/ID`, `create|replace|delete COLLECTION/ID` for each
            write of a commit, `query COLLECTION`; `METHOD HOST/PATH` for a request. "" matches every call.
        nth: which matching call of the instance, from 1; 0 means every one.
        seconds: of a delay, or of a skew.

    Raises:
        ValueError: a clock is skewed, and nothing else is.
    """

    point: Point
    action: Action
    match: str = ""
    nth: int = 1
    seconds: float = 0

    def __post_init__(self) -> None:
        if (self.point is Point.CLOCK) is not (self.action is Action.SKEW):
            raise ValueError(f"{self.action} does not happen at {self.point}: a clock is skewed, and nothing else is")

    def to_json(self) -> dict[str, object]:
        """For handing to an instance."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        return cls(**{**row, "point": Point(row["point"]), "action": Action(row["action"])})


class FaultOrders:
    """Faults waiting for the instances that they are ordered for."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Fault, ...]]] = {}

    def order(self, service: str, faults: Iterable[Fault]) -> None:
        """Hands faults to the next instance of a service that starts; a further order is for the one after that."""
        self._waiting.setdefault(service, []).append(tuple(faults))

    def take(self, service: str) -> tuple[Fault, ...]:
        """The faults of an instance that starts now; none where none are ordered."""
        waiting = self._waiting.get(service)
        return waiting.pop(0) if waiting else ()

    def clear(self) -> None:
        """Forgets every order that no instance has taken."""
        self._waiting.clear()
