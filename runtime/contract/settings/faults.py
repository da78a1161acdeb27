"""What is wrong with an environment: all of it, in the order in which it was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.contract.errors import HoldfastError


class Fault(NamedTuple):
    """One setting that does not hold.

    Attributes:
        code: stable reason code.
        detail: names the variable, its value (never of a secret), the rule and a value that would pass; one line.
    """

    code: str
    detail: str

    @property
    def line(self) -> str:
        """The fault as a start prints it."""
        return f"{self.code}: {self.detail}"


class SettingsError(HoldfastError):
    """A process, or a stack, that must not start.

    Args:
        faults: at least one.
    """

    code = "invalid_settings"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """One `code: detail` for each fault, in the order checked."""
        return tuple(fault.line for fault in self.faults)
