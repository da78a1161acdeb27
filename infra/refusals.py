"""The words of every refused stack value: key, value, rule, damage, and a value that would pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.fields import Explanation, explanation_of
from infra.misalignment import Change, Misalignment, Setting
from infra.sections.image_build import PACKAGE
from infra.settings import BUILT, NAMESPACE, SECTIONS, STACK, StackSettings
from runtime.contract.settings.faults import Fault
from runtime.contract.settings.parse import shown

SIGNING_KEY: Final = f"{NAMESPACE}signing_key"

Place = tuple[str, ...]
"""Full key, and the key inside its section."""

_DERIVED: Final = {f"{NAMESPACE}signing_public_key": SIGNING_KEY}
"""What looks like a setting -> the setting that it follows from."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,80}", re.ASCII)


def refused(place: Place, value: Any) -> Fault:
    """A value that is not what it must be."""
    said = explanation_of(_field(place))
    spelled = "its value (hidden)" if said.secret else _spelled(value)
    detail = f"{_key(place)} is {spelled}, but {said.rule}: {said.damage}; {_passing(place, said)}"
    return Fault("invalid_stack_value", detail)


def missing(place: Place) -> Fault:
    """A required value that is not there."""
    said = explanation_of(_field(place))
    detail = f"{_key(place)} is not set, but {said.rule}: {said.damage}; {_passing(place, said)}"
    return Fault("missing_stack_value", detail)


def unknown(place: Place, value: Any) -> Fault:
    """A key that is no setting."""
    if source := _DERIVED.get(_key(place)):
        return Fault("unknown_stack_key", f"{_key(place)} is no setting, it follows from {source}; remove it")
    known = _fields(SECTIONS[place[0]] if len(place) == 2 else StackSettings)
    by_name = {key.rpartition(":")[2]: key for key in known}
    close = get_close_matches(place[-1].rpartition(":")[2], by_name, n=1)
    instead = f"use {_key((*place[:-1], by_name[close[0]]))}" if close else f"use one of {', '.join(sorted(known))}"
    spelled = _spelled(value) if isinstance(value, int | float) else "its value"
    key = _key(place)
    key = key if _PLAIN_KEY.fullmatch(key) else shown(key)
    detail = f"{key} is no setting, and {spelled} would have no effect; remove it, or {instead}"
    return Fault("unknown_stack_key", detail)


def plain_secret(key: str) -> Fault:
    """A secret in plain text."""
    detail = (
        f"{key} is in plain text, but must be a secret of the stack: whoever reads the stack file could sign jobs; "
        f"{_stored(key)}, and replace the key, which has been seen"
    )
    return Fault("plain_stack_secret", detail)


def half_a_key(missing: str, given: str, passing: str) -> Fault:
    """One of two values of the previous key without the other."""
    detail = (
        f"{missing} is not set, but must be where {given} is: jobs of the previous key would be refused; "
        f"for example {missing}: {passing}, or leave out both"
    )
    return Fault("missing_stack_value", detail)


def same_key(key: str, current: str) -> Fault:
    """The current key as its own predecessor, as when the commands of a rotation are run twice."""
    detail = (
        f"{key} is the public half of {current}, but must be that of another key: jobs of the previous key would be "
        f"refused; set the key that signed before the change, which until the next deployment is what "
        f"`pulumi stack output signing_public_key` says, or leave out both"
    )
    return Fault("invalid_stack_value", detail)


def same_key_id(key: str, value: str, current: str, passing: str) -> Fault:
    """Two keys under one id."""
    detail = (
        f"{key} is {shown(value)}, but must differ from {current}: a token says by the id which key it is checked "
        f"with, so that jobs of one of the two would be refused; leave the older key its id, and give the newer one "
        f"another, for example {passing}"
    )
    return Fault("invalid_stack_value", detail)


def no_image(image: str, build: str) -> Fault:
    """A stack that neither names its image nor builds it."""
    said = explanation_of(_field((image,)))
    detail = (
        f"{image} is not set, but must be, or {build} in its place: the services would have nothing to run; "
        f"for example {image}: {said.passing}"
    )
    return Fault("missing_stack_value", detail)


def two_images(image: str, build: str) -> Fault:
    """A stack that names its image and builds one."""
    detail = (
        f"{build} is set, and {image} is too, but only one of them may be: it could not be told which image the "
        f"services run; remove {image} to build it, or {build} to run the one that {image} names"
    )
    return Fault("invalid_stack_value", detail)


def no_repository(repository: str, build: str) -> Fault:
    """A stack that builds its image and has nowhere to push it."""
    detail = (
        f"{repository} is not set, but must be where {build} is: the image would have nowhere to go; "
        f"for example {repository}: {{}}"
    )
    return Fault("missing_stack_value", detail)


def no_builder(build: str, image: str) -> Fault:
    """A stack that builds its image, and an environment that cannot."""
    detail = (
        f"{build} is set, but {PACKAGE} is not installed, which builds the image: nothing could be deployed; "
        f"install it with `uv sync --inexact --group image`, or remove {build} and set {image}"
    )
    return Fault("image_builder_missing", detail)


def not_built(workload: str) -> Fault:
    """A workload that the program knows and cannot deploy."""
    key = f"{NAMESPACE}workloads"
    passing = f"{key}: {json.dumps(sorted(BUILT))} would pass"
    detail = f"{key} has {workload}, which is not built yet: its messages would have no worker; {passing}"
    return Fault("workload_not_built", detail)


def _passing(place: Place, said: Explanation) -> str:
    """What to do: a value that passes, or, for what must not be in the stack file, how to store it."""
    return _stored(SIGNING_KEY) if place == (SIGNING_KEY,) else f"for example {_key(place)}: {said.passing}"


def _stored(key: str) -> str:
    return f"set it with `base64 -w0 < key.pem | pulumi config set --secret {key}`"


def misaligned(found: Misalignment) -> Fault:
    """Settings that hold by themselves and not together."""
    given = ", ".join(f"{_key(place_of(setting))} is {value}" for setting, value in found.given.items())
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.facts.items())
    passing = " with ".join(map(_change, found.passing))
    detail = f"{given}, but {found.rule} ({found.rule_id}: {facts}): {found.damage}; {passing} would pass"
    return Fault("misaligned_stack_value", detail)


def place_of(setting: Setting) -> Place:
    """Where a setting of a section is in the stack file."""
    section, field = setting
    model = SECTIONS[f"{NAMESPACE}{section}"]
    return f"{NAMESPACE}{section}", _alias(field, model.model_fields[field])


def _change(change: Change) -> str:
    key = _key(place_of(change.setting))
    return f"{key} left out" if change.value is None else f"{key}: {json.dumps(change.value)}"


def _field(place: Place) -> FieldInfo:
    model = SECTIONS[place[0]] if len(place) == 2 else StackSettings
    return _fields(model)[place[-1]]


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {_alias(name, field): field for name, field in model.model_fields.items() if _alias(name, field) != STACK}


def _alias(name: str, field: FieldInfo) -> str:
    return str(field.validation_alias or name)


def _key(place: Iterable[str]) -> str:
    return ".".join(place)


def _spelled(value: Any) -> str:
    return shown(value) if isinstance(value, str) else shown(json.dumps(value)).strip("'")
