"""Reading one object of a definition: each fault is noted with its place, and reading goes on."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from runtime.execution.flow.faults import Faults, below
from runtime.execution.flow.limits import COMMENT_CHARACTERS, SECONDS

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
NAME_RULE: Final = "1 to 64 letters, digits, _ or -, starting with a letter or _"


class Fields:
    """The members of one object.

    Args:
        members: the object.
        pointer: its place.
        faults: where faults go.
    """

    def __init__(self, members: Mapping[str, object], pointer: str, faults: Faults) -> None:
        self.members = members
        self.pointer = pointer
        self.faults = faults

    def place(self, name: str) -> str:
        """The pointer of a member."""
        return below(self.pointer, name)

    def fault(self, name: str, text: str) -> None:
        """Notes a fault of a member."""
        self.faults.add(self.place(name), text)

    def only(self, required: Collection[str], optional: Collection[str]) -> None:
        """Notes missing and unknown members, and a comment that is none."""
        known = {*required, *optional, "comment"}
        for name in required:
            if name not in self.members:
                self.fault(name, f"is missing; {', '.join(required)} must be there")
        for name in self.members:
            if name not in known:
                self.fault(name, f"is unknown here; there may be {', '.join(sorted(known))}")
        comment = self.members.get("comment", "")
        if not isinstance(comment, str) or len(comment) > COMMENT_CHARACTERS:
            self.fault("comment", f"must be a string of at most {COMMENT_CHARACTERS} characters")

    def string(self, name: str, rule: re.Pattern[str], says: str) -> str:
        """A string that must match; "" where it does not."""
        value = self.members.get(name)
        if isinstance(value, str) and rule.fullmatch(value) is not None:
            return value
        if name in self.members:
            self.fault(name, f"must be {says}")
        return ""

    def word(self, name: str, words: Collection[str], default: str) -> str:
        """One of a few words."""
        value = self.members.get(name, default)
        if isinstance(value, str) and value in words:
            return value
        self.fault(name, f"must be one of {', '.join(words)}")
        return default

    def flag(self, name: str) -> bool:
        """A boolean, false where it is absent."""
        value = self.members.get(name, False)
        if not isinstance(value, bool):
            self.fault(name, "must be true or false")
        return value is True

    def integer(self, name: str, least: int, most: int, default: int | None) -> int | None:
        """An integer inside bounds."""
        if name not in self.members:
            return default
        value = self.members[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(name, f"must be an integer from {least} to {most}")
            return default
        return value

    def seconds(self, name: str) -> float | None:
        """A time limit; None where there is none."""
        value = self.members.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= SECONDS:
            self.fault(name, f"must be a number of seconds above 0 and at most {SECONDS}, or null")
            return None
        return float(value)

    def name_of(self, name: str, known: Collection[str], what: str, *, needed: bool = False) -> str | None:
        """The name of a node or flow that is there; None where it is null or absent, a fault if it is `needed`."""
        value = self.members.get(name)
        if value is None:
            if needed and name in self.members:
                self.fault(name, f"must be the name of a {what}")
            return None
        if isinstance(value, str) and value in known:
            return value
        given = f"; there is no {value[:80]!r}" if isinstance(value, str) else ""
        self.fault(name, f"must be the name of a {what}{'' if needed else ' or null'}{given}")
        return None
