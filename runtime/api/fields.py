"""Reads the members of one JSON object and remembers every fault, so that a caller mends a request once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeVar

from runtime.api.json_value import pointer
from runtime.api.problem import FieldFault

Word = TypeVar("Word", bound=StrEnum)

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RUN_ID_RULE: Final = "1 to 64 letters, digits, _ or -, starting with a letter or digit"


class Fields:
    """The members of an object in a body.

    A faulty member is recorded and read as its default, so that reading goes on.

    Args:
        value: the object; anything else is a fault of its own, and then no member is missed.
        faults: where faults are recorded.
        path: where the object is in the body.
    """

    def __init__(self, value: object, faults: list[FieldFault], path: Sequence[str | int] = ()) -> None:
        self._faults = faults
        self._path = tuple(path)
        self._is_object = isinstance(value, dict)
        self._members: dict[str, object] = dict(value) if isinstance(value, dict) else {}
        if not self._is_object:
            self.fault(None, "must be an object")

    def fault(self, name: str | None, detail: str) -> None:
        """Records a fault of a member; None is the object itself."""
        self.fault_at("" if name is None else pointer((name,)), detail)

    def fault_at(self, place: str, detail: str) -> None:
        """Records a fault at a JSON pointer into the object."""
        self._faults.append(FieldFault(pointer(self._path) + place, detail))

    def has(self, name: str) -> bool:
        """Whether the member is there and not null."""
        return self._members.get(name) is not None

    def raw(self, name: str) -> object:
        """The member as it is; None where it is not there."""
        return self._members.get(name)

    def only(self, names: Sequence[str]) -> None:
        """Refuses every member that is not in `names`."""
        for name in self._members:
            if name not in names:
                self.fault(name, f"is not known here; known are {', '.join(names)}")

    def need(self, name: str, what: str) -> None:
        """Refuses a missing or null member."""
        if self._is_object and not self.has(name):
            self.fault(name, f"is required: {what}")

    def text(self, name: str, pattern: re.Pattern[str], rule: str) -> str | None:
        """A string that matches; None where it is missing, null or faulty."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            self.fault(name, f"must be {rule}")
            return None
        return value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """An integer in `low`..`high`, written without fraction; None where it is missing, null or faulty."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fault(name, f"must be an integer from {low} to {high}")
            return None
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number in `low`..`high`; None where it is missing, null or faulty."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
            self.fault(name, f"must be a number from {low:g} to {high:g}")
            return None
        return float(value)

    def word(self, name: str, kind: type[Word]) -> Word | None:
        """A closed word, spelt exactly; None where it is missing, null or faulty."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or value not in [member.value for member in kind]:
            self.fault(name, f"must be one of {', '.join(kind)}")
            return None
        return kind(value)
