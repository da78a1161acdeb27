"""Reading a resource's properties: absent, known, and not known yet are three different things."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

UNKNOWN_TEXTS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
"""What Pulumi's protocol carries in place of a value that is not known before the deployment, one for each type."""

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]{1,9})?)s", re.ASCII)

Key = str | int


class Unreadable(Exception):
    """A value that a rule needs and cannot read. Its text names the place, never the value.

    Args:
        place: dotted path of the value.
        reason: why it cannot be read.
    """

    def __init__(self, place: str, reason: str = "its value is not known before the deployment") -> None:
        super().__init__(f"{place} cannot be read: {reason}")


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = _Unknown()
"""In place of a value that is not known."""


def plain(value: object, unknown: type[Exception] = KeyError) -> object:
    """A copy out of dictionaries, lists and single values, with UNKNOWN for what is not known.

    Args:
        value: properties, or a part of them; any mapping or sequence.
        unknown: what the given mappings raise on access to a value that is not known.
    """
    if isinstance(value, str):
        return UNKNOWN if value in UNKNOWN_TEXTS else value
    if isinstance(value, Mapping):
        return {str(key): _part(value, key, unknown) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_part(value, index, unknown) for index in range(len(value))]
    return value


def _part(value: Mapping[object, object] | Sequence[object], key: object, unknown: type[Exception]) -> object:
    try:
        return plain(value[key], unknown)  # type: ignore[call-overload]  # a key of a mapping or an index of a sequence
    except unknown:
        return UNKNOWN


class Properties:
    """Properties of one resource, or a section of them; every reader names a path from here.

    Readers return None for what is absent, and raise Unreadable for what is not known or is of another type.

    Args:
        values: plain values, see `plain`.
        place: path of the section, for messages.
    """

    def __init__(self, values: Mapping[str, object], place: str = "") -> None:
        self._values = values
        self._place = place

    def place(self, *path: Key) -> str:
        """Dotted path from the resource."""
        return ".".join(str(part) for part in (self._place, *path) if part != "")

    def value(self, *path: Key) -> object:
        """The plain value, None where it is absent."""
        value: object = self._values
        for depth, key in enumerate(path):
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int):
                value = value[key] if key < len(value) else None
            else:
                value = None
            if value is UNKNOWN:
                raise Unreadable(self.place(*path[: depth + 1]))
        return value

    def known(self, *path: Key) -> object:
        """Like `value`, with None also for what is not known."""
        try:
            return self.value(*path)
        except Unreadable:
            return None

    def has(self, *path: Key) -> bool:
        """Whether there is something, known or not."""
        try:
            return self.value(*path) is not None
        except Unreadable:
            return True

    def text(self, *path: Key) -> str | None:
        """A text."""
        value = self.value(*path)
        if value is None or isinstance(value, str):
            return value
        raise Unreadable(self.place(*path), "it is no text")

    def known_text(self, *path: Key) -> str | None:
        """A text, None also for what is not known or is no text."""
        value = self.known(*path)
        return value if isinstance(value, str) else None

    def number(self, *path: Key) -> int | None:
        """A whole number."""
        value = self.value(*path)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise Unreadable(self.place(*path), "it is no whole number")
        return int(value)

    def flag(self, *path: Key) -> bool | None:
        """True or false."""
        value = self.value(*path)
        if value is None or isinstance(value, bool):
            return value
        raise Unreadable(self.place(*path), "it is neither true nor false")

    def seconds(self, *path: Key) -> int | None:
        """A duration like `900s`; a fraction is rounded down."""
        value = self.text(*path)
        if value is None:
            return None
        match = _DURATION.fullmatch(value)
        if match is None:
            raise Unreadable(self.place(*path), "it is no duration like 900s")
        return int(float(match[1]))

    def section(self, *path: Key) -> Properties | None:
        """A mapping."""
        value = self.value(*path)
        if value is None:
            return None
        if isinstance(value, dict):
            return Properties(value, self.place(*path))
        raise Unreadable(self.place(*path), "it is no mapping")

    def sections(self, *path: Key) -> list[Properties]:
        """A list of mappings, empty where it is absent."""
        value = self.value(*path)
        if value is None:
            return []
        if not isinstance(value, list):
            raise Unreadable(self.place(*path), "it is no list")
        return [section for index in range(len(value)) if (section := self.section(*path, index)) is not None]

    def texts(self, *path: Key) -> tuple[str, ...]:
        """A list of texts, empty where it is absent."""
        value = self.value(*path)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise Unreadable(self.place(*path), "it is no list")
        return tuple(text for index in range(len(value)) if (text := self.text(*path, index)) is not None)

    def mapping(self, *path: Key) -> Mapping[str, object]:
        """The plain values of a mapping, empty where it is absent; some may be UNKNOWN."""
        value = self.value(*path)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise Unreadable(self.place(*path), "it is no mapping")

    def every_text(self) -> list[tuple[str, str]]:
        """Every known text in here, with its place."""
        return list(_texts(self._values, self._place))


def _texts(value: object, place: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(place, value)]
    parts: list[tuple[Key, object]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    return [found for key, part in parts for found in _texts(part, f"{place}.{key}" if place else str(key))]
