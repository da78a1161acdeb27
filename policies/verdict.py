"""Asks the rules about a program's resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


class ConfigurationError(ValueError):
    """A configuration that the rules do not understand."""


def level_of(rule: Rule, configuration: Mapping[str, Any]) -> Level:
    """The level that a configuration gives a rule.

    Raises:
        ConfigurationError: a level that is none.
    """
    own = configuration.get(rule.id)
    given = own if isinstance(own, str) else (own or {}).get("enforcementLevel") or configuration.get("all")
    if given is None:
        return rule.level
    if given not in set(Level):
        raise ConfigurationError(f"{rule.id} has a level that is none; use one of {', '.join(Level)}")
    return Level(given)


def judge(
    resources: Iterable[Resource],
    configuration: Mapping[str, Any] | None = None,
    rules: Sequence[Rule] = RULES,
) -> list[Violation]:
    """Everything that breaks a rule, in the order of the rules.

    Args:
        resources: all resources of the program.
        configuration: as Pulumi's `--policy-pack-config` file: rule id -> level, or a mapping with `enforcementLevel`
            and the rule's settings; `all` -> level of the rest.
        rules: which rules to ask.

    Raises:
        ConfigurationError: a rule or a level that does not exist.
    """
    given = configuration or {}
    unknown = sorted(given.keys() - {"all"} - {rule.id for rule in RULES})
    if unknown:
        raise ConfigurationError(f"the configuration names {', '.join(unknown)}, which are no rules")
    facts = Facts(resources)
    found = []
    for rule in rules:
        level = level_of(rule, given)
        if level is Level.DISABLED:
            continue
        own = given.get(rule.id)
        options = own if isinstance(own, Mapping) else {}
        found += [
            Violation(rule=rule, urn=urn, level=level, detail=detail) for urn, detail in details(rule, facts, options)
        ]
    return found
