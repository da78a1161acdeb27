"""Values of a definition: JSON in which strings may be references (`$.input.name`) or have `${input.name}` in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from runtime.execution.flow.faults import Faults, FlowFault, below
from runtime.execution.flow.limits import (
    DEFINITION_DEPTH,
    TEMPLATE_CHARACTERS,
    TEMPLATE_PARTS,
    VALUE_BYTES,
)
from runtime.execution.flow.path import Path, PathSyntax, Scope, parse_path

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PART: Final = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")


class Literal(Struct, frozen=True):
    """A value that is the same in every run."""

    value: object

    def evaluate(self, scope: Scope) -> object:  # noqa: ARG002 - the form that all expressions share
        """The value."""
        return self.value


class Reference(Struct, frozen=True):
    """A value that is found."""

    path: Path

    def evaluate(self, scope: Scope) -> object:
        """The value at the path; FlowFault where there is none."""
        return self.path.find(scope)


class Text(Struct, frozen=True):
    """A string put together."""

    parts: tuple[str | Path, ...]

    def evaluate(self, scope: Scope) -> str:
        """The string: strings as they are, everything else as compact JSON.

        Raises:
            FlowFault: a path leads nowhere, or the text is longer than a value may be.
        """
        done: list[str] = []
        size = 0
        for part in self.parts:
            text = part if isinstance(part, str) else as_text(part.find(scope))
            size += len(text)
            if size > VALUE_BYTES:
                raise FlowFault(f"the text is longer than {VALUE_BYTES} characters")
            done.append(text)
        return "".join(done)


class Items(Struct, frozen=True):
    """A list with something to evaluate in it."""

    items: tuple[Expression, ...]

    def evaluate(self, scope: Scope) -> list[object]:
        """The list."""
        return [item.evaluate(scope) for item in self.items]


class Members(Struct, frozen=True):
    """An object with something to evaluate in it."""

    members: tuple[tuple[str, Expression], ...]

    def evaluate(self, scope: Scope) -> dict[str, object]:
        """The object."""
        return {name: value.evaluate(scope) for name, value in self.members}


Expression = Literal | Reference | Text | Items | Members


class Expressions:
    """Parses the expressions of one place, and checks each path that it meets.

    Args:
        faults: where syntax errors go.
        rule: says what is wrong with a path in this place, None where nothing is.
    """

    def __init__(self, faults: Faults, rule: Callable[[Path], str | None]) -> None:
        self._faults = faults
        self._rule = rule

    def value(self, value: object, pointer: str, depth: int = 1) -> Expression:
        """The expression of any JSON value."""
        if isinstance(value, str):
            return self.text(value, pointer)
        if not isinstance(value, dict | list):
            return Literal(value)
        if depth > DEFINITION_DEPTH:
            self._faults.add(pointer, f"the value is nested deeper than {DEFINITION_DEPTH} levels")
            return Literal(None)
        if isinstance(value, list):
            items = tuple(self.value(item, below(pointer, n), depth + 1) for n, item in enumerate(value))
            return _folded(Items(items), *items)
        members = tuple((name, self.value(item, below(pointer, name), depth + 1)) for name, item in value.items())
        return _folded(Members(members), *(item for _, item in members))

    def text(self, text: str, pointer: str) -> Literal | Reference | Text:
        """The expression of a string: a reference, a text with parts, or the string itself."""
        if text.startswith("$."):
            path = self.path(text[2:], pointer)
            return Reference(path) if path else Literal(None)
        if text.startswith("$$."):
            return Literal(text[1:])
        return self.template(text, pointer) if "${" in text else Literal(text)

    def template(self, text: str, pointer: str) -> Literal | Text:
        """The expression of a text in which only `${...}` is special."""
        if len(text) > TEMPLATE_CHARACTERS:
            self._faults.add(pointer, f"the text has {len(text)} characters, at most {TEMPLATE_CHARACTERS} are read")
            return Literal(None)
        parts: list[str | Path] = []
        end = 0
        for match in _PART.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            if match.group(1) is None:
                parts.append("${")
            elif not match.group(2):
                self._faults.add(pointer, "a `${` has no `}` after it; write `$${` for the characters themselves")
            elif path := self.path(match.group(1), pointer):
                parts.append(path)
        parts.append(text[end:])
        if sum(isinstance(part, Path) for part in parts) > TEMPLATE_PARTS:
            self._faults.add(pointer, f"the text has more than {TEMPLATE_PARTS} `${{...}}`")
        if any(isinstance(part, Path) for part in parts):
            return Text(tuple(part for part in parts if part != ""))
        return Literal("".join(map(str, parts)))

    def path(self, text: str, pointer: str) -> Path | None:
        """The path of a text without `$.`; None where it is faulty."""
        try:
            path = parse_path(text)
        except PathSyntax as error:
            self._faults.add(pointer, str(error))
            return None
        fault = self._rule(path)
        if fault is not None:
            self._faults.add(pointer, fault)
        return path


def _folded(whole: Expression, *parts: Expression) -> Expression:
    """A whole of literals is evaluated once, here."""
    return Literal(whole.evaluate({})) if all(isinstance(part, Literal) for part in parts) else whole


def as_text(value: object) -> str:
    """A value inside a text: a string as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return _COMPACT.encode(value)
