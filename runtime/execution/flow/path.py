"""Paths: where a value is found, such as `$.nodes.fetch.output.items[0]`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.limits import PATH_CHARACTERS, PATH_STEPS

ROOTS: Final = ("input", "nodes", "run", "item", "index", "error")
"""Where a path may begin."""

_ROOT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(r'\.([A-Za-z_][A-Za-z0-9_-]*)|\[(-?[0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')

Scope = Mapping[str, object]
"""What paths are looked up in: root name -> value."""


class PathSyntax(ValueError):
    """A text is not a path; says why."""


class Path(Struct, frozen=True):
    """A parsed path.

    Attributes:
        text: as written, without `$.`.
        root: one of ROOTS.
        steps: member names and list positions.
    """

    text: str
    root: str
    steps: tuple[str | int, ...]

    def find(self, scope: Scope) -> object:
        """The value at the path.

        Raises:
            FlowFault: there is none; says where the search ended, never what the values are.
        """
        if self.root not in scope:
            raise FlowFault(f"`{self.text}`: there is no `{self.root}` here")
        value = scope[self.root]
        for step in self.steps:
            if isinstance(step, str) and isinstance(value, dict):
                if step not in value:
                    raise FlowFault(f"`{self.text}`: no member {step!r}; use `exists` where it may be absent")
                value = value[step]
            elif isinstance(step, int) and isinstance(value, list):
                if not -len(value) <= step < len(value):
                    raise FlowFault(f"`{self.text}`: no position {step} in a list of {len(value)}")
                value = value[step]
            else:
                what = f"member {step!r}" if isinstance(step, str) else f"position {step}"
                raise FlowFault(f"`{self.text}`: {kind(value)} has no {what}")
        return value


def parse_path(text: str) -> Path:
    """Reads a path written without its `$.`.

    Raises:
        PathSyntax
    """
    if len(text) > PATH_CHARACTERS:
        raise PathSyntax(f"the path has {len(text)} characters, at most {PATH_CHARACTERS} are read")
    start = _ROOT.match(text)
    if start is None:
        raise PathSyntax(f"the path {text!r} must begin with one of {', '.join(ROOTS)}")
    if start.group() not in ROOTS:
        raise PathSyntax(f"the path {text!r} begins with {start.group()!r}; it must be one of {', '.join(ROOTS)}")
    steps: list[str | int] = []
    place = start.end()
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            raise PathSyntax(f'the path {text!r} cannot be read from {text[place:]!r} on: write .name, [0] or ["name"]')
        steps.append(_step(step, text))
        place = step.end()
    if len(steps) > PATH_STEPS:
        raise PathSyntax(f"the path has {len(steps)} steps, at most {PATH_STEPS} are followed")
    return Path(text, start.group(), tuple(steps))


def kind(value: object) -> str:
    """The JSON name of a value's type, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def _step(match: re.Match[str], text: str) -> str | int:
    name, position, quoted = match.groups()
    if name is not None:
        return str(name)
    if position is not None:
        return int(position)
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise PathSyntax(f"the path {text!r} has a name that is not a JSON string: {quoted}") from None
