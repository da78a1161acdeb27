"""What this package counts, as the attributes that it needs of a process's metrics."""

from __future__ import annotations

from typing import Any, Protocol, Self


class Count(Protocol):
    """A counter or gauge."""

    def inc(self, amount: float = 1) -> None:
        """Adds."""
        ...

    def labels(self, *labelvalues: Any) -> Self:
        """The series of these label values."""
        ...


class Level(Protocol):
    """A gauge that goes both ways."""

    def inc(self, amount: float = 1) -> None:
        """Adds."""
        ...

    def dec(self, amount: float = 1) -> None:
        """Takes away."""
        ...


class Meters(Protocol):
    """Counters of executions; `runtime.observability.metrics.Metrics` has them."""

    @property
    def callback_batches(self) -> Count:
        """Event batches by result: `acknowledged` or `failed`."""
        ...

    @property
    def callback_retries(self) -> Count:
        """Callback tries after the first."""
        ...

    @property
    def callback_drops(self) -> Count:
        """Events that were not delivered."""
        ...
