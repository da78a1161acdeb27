"""What a rule is: what must hold, why, what to do, and over which facts it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from .facts import Facts


class Level(StrEnum):
    """What a violation does."""

    ADVISORY = "advisory"
    """It is shown."""
    MANDATORY = "mandatory"
    """It stops the deployment."""
    DISABLED = "disabled"
    """The rule is not asked."""


class Severity(StrEnum):
    """How bad it is when the rule does not hold."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Scope(StrEnum):
    """What a rule must see."""

    RESOURCE = "resource"
    """One resource: it is asked before that resource is touched."""
    STACK = "stack"
    """All resources together: it is asked at the end of a preview."""


class Subject(Protocol):
    """What a rule is asked about, one at a time."""

    @property
    def urn(self) -> str:
        """Where a violation points to."""


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a rule.

    Attributes:
        meaning: what it is.
        default: its value where the configuration has none: a number, or a list of texts.
    """

    meaning: str
    default: int | tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON schema, for the engine."""
        if isinstance(self.default, int):
            return {"type": "integer", "default": self.default, "description": self.meaning}
        items = {"type": "string"}
        return {"type": "array", "items": items, "default": list(self.default), "description": self.meaning}


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may use beside its subject.

    Attributes:
        facts: the program's.
        options: the rule's settings, complete.
    """

    facts: Facts
    options: Mapping[str, Any]

    def number(self, option: str) -> int:
        """An option that is a number."""
        return int(self.options[option])

    def texts(self, option: str) -> tuple[str, ...]:
        """An option that is a list of texts."""
        return tuple(map(str, self.options[option]))

    def lists(self, option: str, name: str | None) -> bool:
        """Whether a name fits one of the patterns of an option; `*` stands for any text."""
        return name is not None and any(fnmatchcase(name, pattern) for pattern in self.texts(option))


Check = Callable[[Any, Context], Iterator[str]]
"""Yields what is wrong with one subject: no value that could be a secret is in it."""

SubjectT = TypeVar("SubjectT", bound=Subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule.

    Attributes:
        id: stable; also the name under which the engine and the configuration know it.
        summary: what must hold.
        severity: how bad it is otherwise.
        level: what a violation does, unless the configuration says otherwise.
        scope: what it must see.
        breaks: what goes wrong otherwise.
        fix: what to do.
        over: its subjects.
        check: the rule itself.
        options: its settings.
    """

    id: str
    summary: str
    severity: Severity
    level: Level
    scope: Scope
    breaks: str
    fix: str
    over: Callable[[Facts], Iterable[Subject]]
    check: Check
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """Its settings where nothing is configured."""
        return {name: option.default for name, option in self.options.items()}


def rule(
    id_: str,
    summary: str,
    *,
    over: Callable[[Facts], Iterable[SubjectT]],
    breaks: str,
    fix: str,
    severity: Severity = Severity.HIGH,
    level: Level = Level.MANDATORY,
    scope: Scope = Scope.STACK,
    options: Mapping[str, Option] = MappingProxyType({}),
) -> Callable[[Callable[[SubjectT, Context], Iterator[str]]], Rule]:
    """Makes a rule of the function that checks one subject."""

    def made(check: Callable[[SubjectT, Context], Iterator[str]]) -> Rule:
        return Rule(
            id=id_,
            summary=summary,
            severity=severity,
            level=level,
            scope=scope,
            breaks=breaks,
            fix=fix,
            over=over,
            check=check,
            options=options,
        )

    return made
