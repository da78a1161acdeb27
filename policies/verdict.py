"""Asks the rules about a program's resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .configuration import Configuration, check_configuration, level_of, options_of, own_configuration
from .facts import Facts
from .properties import Unreadable
from .resource import Resource
from .rule import Context, Level, Rule
from .rules import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a resource breaks.

    Attributes:
        rule: the rule.
        urn: the resource.
        level: what the violation does.
        detail: what is wrong with the resource.
    """

    rule: Rule
    urn: str
    level: Level
    detail: str

    @property
    def message(self) -> str:
        """Rule, what is wrong, what breaks, what to do; one line."""
        return message_of(self.rule, self.detail)


def message_of(rule: Rule, detail: str) -> str:
    """Rule, what is wrong, what breaks, what to do; one line."""
    return f"{rule.id}: {detail}. Otherwise {rule.breaks}. {rule.fix}."


def details(rule: Rule, facts: Facts, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """URN and text of everything that breaks one rule. What the rule cannot read breaks it.

    Args:
        rule: the rule.
        facts: the program's.
        options: the configured settings of the rule; the rest have their defaults.
    """
    context = Context(facts, {**rule.defaults, **{key: options[key] for key in rule.options if key in options}})
    for subject in rule.over(facts):
        try:
            for detail in rule.check(subject, context):
                yield subject.urn, detail
        except Unreadable as error:
            yield subject.urn, f"{error}, so nothing says that the rule holds"
        except Exception as error:  # noqa: BLE001 - a fault of a rule must not pass a program, nor show its values
            yield subject.urn, f"the rule could not be applied ({type(error).__name__}), so nothing says that it holds"


def judge(
    resources: Iterable[Resource],
    configuration: Configuration | None = None,
    rules: Sequence[Rule] = RULES,
) -> list[Violation]:
    """Everything that breaks a rule, in the order of the rules.

    Args:
        resources: all resources of the program.
        configuration: as the engine's `--policy-pack-config` file has it; None is what comes with the pack.
        rules: which rules to ask.

    Raises:
        ConfigurationError: a rule, a setting or a level that does not exist.
    """
    given = own_configuration() if configuration is None else configuration
    check_configuration(given)
    facts = Facts(resources)
    found = []
    for rule in rules:
        level = level_of(rule, given)
        if level is not Level.DISABLED:
            broken = details(rule, facts, options_of(rule, given))
            found += [Violation(rule=rule, urn=urn, level=level, detail=detail) for urn, detail in broken]
    return found
