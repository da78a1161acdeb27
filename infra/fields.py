"""How a stack setting is described: its form, and what a refusal says of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, Strict
from pydantic.fields import FieldInfo

_EXPLANATION: Final = "explanation"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a refusal of a setting says beside its key and value.

    Attributes:
        rule: what must hold, starting with `must`.
        damage: what would go wrong.
        passing: a value that passes, as the stack file spells it.
        secret: True keeps the value out of every message.
    """

    rule: str
    damage: str
    passing: str
    secret: bool = False


_SECTION: Final = Explanation("must be a mapping of its settings", "none of them would be read", "{}")


def explanation_of(field: FieldInfo) -> Explanation:
    """What `explained` and `ranged` attached to a field; for a section, what may be in its place."""
    extra: Any = field.json_schema_extra or {}
    found: Explanation = extra.get(_EXPLANATION, _SECTION)
    return found


def explained(explanation: Explanation, default: Any = ..., *, alias: str | None = None) -> Any:
    """A field with an explanation; required where no default is given.

    Args:
        explanation: what a refusal says.
        default: used where the key is absent.
        alias: the key in the stack file; None: as the model makes it from the field's name.
    """
    extra: Any = {_EXPLANATION: explanation}
    return Field(default, validation_alias=alias, json_schema_extra=extra, repr=not explanation.secret)


def ranged(
    alias: str, low: int, high: int, default: int | None, damage: str, *, passing: int | None = None, unit: str = ""
) -> Any:
    """A number of something, or a duration whose unit is the end of its key.

    Args:
        alias: the key in the stack file; durations end in `_seconds`.
        low: smallest value.
        high: largest value.
        default: used where the key is absent; None derives the value from the others.
        damage: what would go wrong outside the range.
        passing: a value that passes where there is no default.
        unit: what is counted, for the message.
    """
    lasting = alias.endswith("_seconds")
    passes = str(passing if default is None else default)
    rule = f"must be a whole number, {low} to {high}{' seconds' if lasting else unit and f' {unit}'}"
    bounds: tuple[Any, Any] = (timedelta(seconds=low), timedelta(seconds=high)) if lasting else (low, high)
    start = timedelta(seconds=default) if lasting and default is not None else default
    extra: Any = {_EXPLANATION: Explanation(rule, damage, passes)}
    return Field(start, validation_alias=alias, ge=bounds[0], le=bounds[1], json_schema_extra=extra)


def _whole_seconds(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(seconds=value) if abs(value) <= timedelta.max.total_seconds() else value
    return value if isinstance(value, timedelta) else str(value) + " is not a number of seconds"


def _flag(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


Seconds = Annotated[timedelta, BeforeValidator(_whole_seconds)]
"""A duration, given in whole seconds."""
Count = Annotated[int, Strict()]
"""A whole number; text and booleans are refused."""
Flag = Annotated[bool, Strict(), BeforeValidator(_flag)]
"""`true` or `false`, as the stack file spells it."""


def fitting(holds: Callable[[str], bool]) -> BeforeValidator:
    """Accepts a text for which `holds` is true."""

    def check(value: object) -> object:
        if not isinstance(value, str) or not holds(value):
            raise ValueError("does not fit")
        return value

    return BeforeValidator(check)


def shaped(pattern: re.Pattern[str]) -> BeforeValidator:
    """Accepts a text that has the form of `pattern` as a whole."""
    return fitting(lambda value: pattern.fullmatch(value) is not None)
