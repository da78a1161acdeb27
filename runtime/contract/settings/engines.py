"""The engines that a service runs jobs with: `EXECUTION_ENGINES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from runtime.contract.settings.parse import EnvironmentReader

VARIABLE: Final = "EXECUTION_ENGINES"
BUILT_IN: Final = ""
"""The place of an engine that is part of the service."""
DEFAULT_ENGINES: Final[Mapping[str, str]] = MappingProxyType({"flow": BUILT_IN})

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_PLACE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")
_RULE: Final = (
    "must be a comma list of `flow` and NAME=module.path:function, each name once, names of up to 32 lower case "
    "letters, digits and hyphens starting with a letter"
)


def read_engines(env: EnvironmentReader) -> Mapping[str, str]:
    """Engine name -> place of its entry point, BUILT_IN for the flow engine; default: the flow engine alone."""
    value = env.optional(VARIABLE)
    if value is None:
        return DEFAULT_ENGINES
    engines = parse_engines(value)
    if engines is None:
        env.refuse(VARIABLE, "invalid_engines", _RULE, "flow,report=acme.reports:run")
        return DEFAULT_ENGINES
    return engines


def parse_engines(value: str) -> Mapping[str, str] | None:
    """The engines of a list; None where it is not one."""
    engines: dict[str, str] = {}
    for part in value.split(","):
        name, equals, place = part.strip().partition("=")
        built_in = name == "flow" and not equals
        entry_point = name != "flow" and _NAME.fullmatch(name) and _PLACE.fullmatch(place)
        if name in engines or not (built_in or entry_point):
            return None
        engines[name] = place
    return MappingProxyType(engines)


def render_engines(engines: Mapping[str, str]) -> str:
    """The list that `parse_engines` reads back."""
    return ",".join(f"{name}={place}" if place else name for name, place in engines.items())
