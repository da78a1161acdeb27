"""How the rules are set: levels, and what differs from program to program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .rule import Level, Rule
from .rules import RULES

FILE: Final = Path(__file__).with_name("holdfast.json")
"""The configuration that comes with the pack; the engine's `--policy-pack-config` is laid over it."""

Configuration = Mapping[str, Any]
"""Rule id -> level, or a mapping with the rule's settings and `enforcementLevel`; `all` -> level of the rest."""


class ConfigurationError(ValueError):
    """A configuration that the rules do not understand."""


def own_configuration() -> dict[str, Any]:
    """The configuration that comes with the pack.

    Raises:
        ConfigurationError: a rule, a setting or a level that does not exist.
    """
    given = json.loads(FILE.read_text())
    check_configuration(given)
    return dict(given)


def check_configuration(configuration: Configuration) -> None:
    """Refuses what would have no effect.

    Raises:
        ConfigurationError: a rule, a setting or a level that does not exist.
    """
    rules = {rule.id: rule for rule in RULES}
    unknown = sorted(configuration.keys() - rules.keys() - {"all"})
    if unknown:
        raise ConfigurationError(f"the configuration names {', '.join(unknown)}, which are no rules")
    for name, given in configuration.items():
        if name != "all":
            level_of(rules[name], configuration)
            unknown = sorted(options_of(rules[name], configuration).keys() - rules[name].options.keys())
            if unknown:
                raise ConfigurationError(f"{name} has no setting {', '.join(unknown)}")
        elif given not in set(Level):
            raise ConfigurationError(f"`all` has a level that is none; use one of {', '.join(Level)}")


def level_of(rule: Rule, configuration: Configuration) -> Level:
    """The level that a configuration gives a rule.

    Raises:
        ConfigurationError: a level that is none.
    """
    own = configuration.get(rule.id, {})
    given = own if isinstance(own, str) else own.get("enforcementLevel", configuration.get("all", rule.level))
    if given not in set(Level):
        raise ConfigurationError(f"{rule.id} has a level that is none; use one of {', '.join(Level)}")
    return Level(given)


def options_of(rule: Rule, configuration: Configuration) -> dict[str, Any]:
    """The settings that a configuration gives a rule."""
    own = configuration.get(rule.id, {})
    return (
        {name: value for name, value in own.items() if name != "enforcementLevel"} if isinstance(own, Mapping) else {}
    )
