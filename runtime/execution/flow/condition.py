"""Conditions of a branch: `{"gt": ["$.input.count", 3]}`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from runtime.execution.flow.expression import Expression, Expressions, Literal, Reference
from runtime.execution.flow.faults import Faults, FlowFault, below
from runtime.execution.flow.limits import CASES, DEFINITION_DEPTH
from runtime.execution.flow.path import Scope, kind
from runtime.execution.flow.size import measure

COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "in")
WORDS: Final = (*COMPARISONS, "exists", "and", "or", "not")


class Compare(Struct, frozen=True):
    """Two values against each other."""

    word: str
    left: Expression
    right: Expression

    def holds(self, scope: Scope) -> bool:
        """Whether it is so; FlowFault where the two cannot be compared."""
        left, right = self.left.evaluate(scope), self.right.evaluate(scope)
        measure(left)
        measure(right)
        return _COMPARE[self.word](left, right)


class Exists(Struct, frozen=True):
    """Whether a path leads to a value; null is one."""

    reference: Reference

    def holds(self, scope: Scope) -> bool:
        """Whether it is so."""
        try:
            self.reference.evaluate(scope)
        except FlowFault:
            return False
        return True


class Every(Struct, frozen=True):
    """`and`: all of them; the rest is not looked at after the first that does not hold."""

    members: tuple[Condition, ...]

    def holds(self, scope: Scope) -> bool:
        """Whether it is so."""
        return all(member.holds(scope) for member in self.members)


class AnyOf(Struct, frozen=True):
    """`or`: one of them; the rest is not looked at after the first that holds."""

    members: tuple[Condition, ...]

    def holds(self, scope: Scope) -> bool:
        """Whether it is so."""
        return any(member.holds(scope) for member in self.members)


class Negation(Struct, frozen=True):
    """`not`."""

    member: Condition

    def holds(self, scope: Scope) -> bool:
        """Whether it is so."""
        return not self.member.holds(scope)


Condition = Compare | Exists | Every | AnyOf | Negation

_NEVER: Final = AnyOf(())


def parse_condition(value: object, pointer: str, expressions: Expressions, faults: Faults, depth: int = 1) -> Condition:
    """Reads a condition; a faulty one never holds."""
    if depth > DEFINITION_DEPTH:
        faults.add(pointer, f"the condition is nested deeper than {DEFINITION_DEPTH} levels")
        return _NEVER
    if not isinstance(value, Mapping) or len(value) != 1:
        faults.add(pointer, f"a condition is an object with one member, named one of {', '.join(WORDS)}")
        return _NEVER
    ((word, operand),) = value.items()
    place = below(pointer, word)
    if word in COMPARISONS:
        return _comparison(word, operand, place, expressions, faults)
    if word == "exists":
        return _exists(operand, place, expressions, faults)
    if word == "not":
        return Negation(parse_condition(operand, place, expressions, faults, depth + 1))
    if word not in ("and", "or"):
        faults.add(place, f"{word!r} is no condition; there are {', '.join(WORDS)}")
        return _NEVER
    if not isinstance(operand, list) or not 1 <= len(operand) <= CASES:
        faults.add(place, f"must be a list of 1 to {CASES} conditions")
        return _NEVER
    members = tuple(
        parse_condition(item, below(place, n), expressions, faults, depth + 1) for n, item in enumerate(operand)
    )
    return Every(members) if word == "and" else AnyOf(members)


def json_equal(left: object, right: object) -> bool:
    """Equality of JSON values: 1 equals 1.0, true equals no number."""
    todo = [(left, right)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, bool) or isinstance(other, bool):
            return False
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            todo.extend((value, other[name]) for name, value in one.items())
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True


def _comparison(word: str, operand: object, place: str, expressions: Expressions, faults: Faults) -> Condition:
    if not isinstance(operand, list) or len(operand) != 2:
        faults.add(place, "must be a list of the two values to compare")
        return _NEVER
    left, right = (expressions.value(item, below(place, n)) for n, item in enumerate(operand))
    return Compare(word, left, right)


def _exists(operand: object, place: str, expressions: Expressions, faults: Faults) -> Condition:
    reference = expressions.text(operand, place) if isinstance(operand, str) else Literal(None)
    if not isinstance(reference, Reference):
        faults.add(place, 'must be a path, such as "$.input.name"')
        return _NEVER
    return Exists(reference)


def _order(compare: Callable[[float | str, float | str], bool]) -> Callable[[object, object], bool]:
    def ordered(left: object, right: object) -> bool:
        for wanted in (int | float, str):
            if all(isinstance(side, wanted) and not isinstance(side, bool) for side in (left, right)):
                return bool(compare(left, right))  # type: ignore[arg-type]  # both checked in the line above
        raise FlowFault(f"cannot order {kind(left)} and {kind(right)}; two numbers or two strings can be")

    return ordered


def _contains(left: object, right: object) -> bool:
    if not isinstance(right, list):
        raise FlowFault(f"`in` looks into a list, not into {kind(right)}")
    return any(json_equal(left, item) for item in right)


_COMPARE: Final[Mapping[str, Callable[[object, object], bool]]] = {
    "eq": json_equal,
    "ne": lambda left, right: not json_equal(left, right),
    "lt": _order(operator.lt),
    "le": _order(operator.le),
    "gt": _order(operator.gt),
    "ge": _order(operator.ge),
    "in": _contains,
}
