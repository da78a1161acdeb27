"""Reads one environment and remembers every fault, so that an operator sees all of them at the first start."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from runtime.contract.settings.faults import Fault, SettingsError

_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]*)", re.ASCII)
_SHOWN: Final = 80
"""Characters of a refused value that a message repeats."""
_DIGITS: Final = 20
"""Longest number that is looked at: one digit more than any 64-bit integer."""

Word = TypeVar("Word", bound=StrEnum)


def shown(value: str) -> str:
    """A refused value on one line: quoted, ASCII, shortened."""
    return ascii(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


class EnvironmentReader:
    """Reads variables of one environment.

    A faulty variable is recorded and read as its fallback, so that reading goes on; `finish` raises what was found.
    Values are trimmed, numbers are not: a number is ASCII `0` or digits without a leading zero, and nothing around it.

    Args:
        env: variable -> value.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._faults: list[Fault] = []
        self._bad: set[str] = set()

    def fault(self, name: str, code: str, detail: str) -> None:
        """Records that the variable `name` does not hold."""
        self._bad.add(name)
        self._faults.append(Fault(code, detail))

    def refuse(self, name: str, code: str, rule: str, passing: str, *, secret: bool = False) -> None:
        """Records a fault in the common form: variable, value, rule, a value that would pass."""
        value = "its value (hidden)" if secret else shown(self._env.get(name, ""))
        self.fault(name, code, f"{name} is {value}, but {rule}; for example {name}={passing}")

    def extend(self, faults: list[Fault]) -> None:
        """Records faults that were found elsewhere."""
        self._faults.extend(faults)

    def good(self, *names: str) -> bool:
        """Whether nothing was found against any of these variables."""
        return self._bad.isdisjoint(names)

    def finish(self) -> None:
        """Ends the reading.

        Raises:
            SettingsError: with every fault.
        """
        if self._faults:
            raise SettingsError(self._faults)

    def raw(self, name: str) -> str | None:
        """The value as it is; None where the variable is not set."""
        return self._env.get(name)

    def optional(self, name: str) -> str | None:
        """A text value; None where the variable is not set or blank."""
        return self._env.get(name, "").strip() or None

    def required(self, name: str, passing: str) -> str | None:
        """A text value; None, and a fault, where the variable is not set or blank."""
        value = self._env.get(name)
        if value is None:
            self.fault(
                name, "missing_configuration", f"{name} is not set, but is required; for example {name}={passing}"
            )
            return None
        if not value.strip():
            self.fault(name, "empty_configuration", f"{name} is blank, but is required; for example {name}={passing}")
            return None
        return value.strip()

    def text(
        self, name: str, rule: str, code: str, holds: Callable[[str], bool], passing: str, *, default: str | None = None
    ) -> str:
        """A text value that must satisfy `holds`; required where `default` is None, else optional."""
        value = self.required(name, passing) if default is None else self.optional(name) or default
        if value is None:
            return passing
        if not holds(value):
            self.refuse(name, code, rule, passing)
            return passing
        return value

    def word(self, name: str, kind: type[Word], code: str, default: Word) -> Word:
        """A closed word in any case; optional."""
        value = self.optional(name)
        if value is None:
            return default
        try:
            return kind(value.lower())
        except ValueError:
            self.refuse(name, code, f"must be one of {', '.join(kind)}", default)
            return default

    def number(self, name: str, low: int, high: int, default: int, *, unit: str = "") -> int:
        """An integer in `low`..`high`; `default` where the variable is not set. Blank is a fault."""
        value = self.maybe_number(name, low, high, default, unit=unit)
        return default if value is None else value

    def maybe_number(self, name: str, low: int, high: int, passing: int, *, unit: str = "") -> int | None:
        """An integer in `low`..`high`; None where the variable is not set, or faulty."""
        value = self._env.get(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            rule = "must be digits only, without sign, blanks, underscores or leading zeros"
            self.refuse(name, "invalid_number", rule, str(passing))
            return None
        if len(value) > _DIGITS or not low <= int(value) <= high:
            self.refuse(name, "number_out_of_range", f"must be {low} to {high}{unit and f' {unit}'}", str(passing))
            return None
        return int(value)

    def seconds(self, name: str, low: int, high: int, default: int) -> timedelta:
        """A duration in whole seconds, see `number`."""
        return timedelta(seconds=self.number(name, low, high, default, unit="seconds"))

    def milliseconds(self, name: str, low: int, high: int, default: int) -> timedelta:
        """A duration in whole milliseconds, see `number`."""
        return timedelta(milliseconds=self.number(name, low, high, default, unit="milliseconds"))
