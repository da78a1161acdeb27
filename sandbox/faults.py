"""Ordered faults: what a test asks a service to do wrong, taken one by one; each service's `faults.py` says which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

F = TypeVar("F")


class FaultQueue(Generic[F]):
    """Faults waiting for the call that they apply to, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._orders: list[tuple[F, int | None]] = []

    def order(self, fault: F, *, times: int | None = 1) -> None:
        """Asks for a fault.

        Args:
            fault: what goes wrong, and where.
            times: for how many calls; None means until `clear`.

        Raises:
            ValueError: `times` is below 1.
        """
        if times is not None and times < 1:
            raise ValueError(f"times is {times}; a fault happens once or more, or until cleared (None)")
        self._orders.append((fault, times))

    def take(self, applies: Callable[[F], bool]) -> F | None:
        """The first fault that applies, counted as used; None where no fault does."""
        for index, (fault, times) in enumerate(self._orders):
            if not applies(fault):
                continue
            if times == 1:
                del self._orders[index]
            elif times is not None:
                self._orders[index] = (fault, times - 1)
            return fault
        return None

    def clear(self) -> None:
        """Forgets every fault that is still waiting."""
        self._orders.clear()

    def __len__(self) -> int:
        return len(self._orders)
