"""Reads a stack's values and refuses what does not hold: every fault at once, one line each."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from infra import refusals
from infra.alignment import Plans
from infra.misalignment import misalignments
from infra.public_key import derive_public_key
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.image_build import is_builder_installed
from infra.sections.worker import WorkerPlan
from infra.settings import BUILT, NAMESPACE, SECTIONS, STACK, STRUCTURED, StackSettings
from runtime.contract.settings import job_keys
from runtime.contract.settings.faults import Fault, SettingsError
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID, another_key_id
from runtime.contract.settings.words import Workload

_WORKER: Final = f"{NAMESPACE}worker"
_API: Final = f"{NAMESPACE}api"
_EXECUTOR: Final = f"{NAMESPACE}executor"
_SIGNING_KEY: Final = f"{NAMESPACE}signing_key"
_KEY_ID: Final = f"{NAMESPACE}signing_key_id"
_PREVIOUS_KEY: Final = f"{NAMESPACE}previous_signing_public_key"
_PREVIOUS_ID: Final = f"{NAMESPACE}previous_signing_key_id"
_ENGINES: Final = f"{NAMESPACE}engines"
_IMAGE: Final = f"{NAMESPACE}image"
_IMAGE_BUILD: Final = f"{NAMESPACE}image_build"
_REPOSITORY: Final = f"{NAMESPACE}artifact_repository"
_PROVIDER_KEYS: Final = frozenset({"gcp:project", "gcp:region"})

Plan = TypeVar("Plan", bound=BaseModel)
Faults = dict[tuple[str, ...], Fault]
"""Full key, and the key inside its section -> what is wrong with it."""


def load_settings(values: Mapping[str, str], secret_keys: Collection[str], stack: str) -> StackSettings:
    """The stack's settings.

    Args:
        values: full key -> value; structures as JSON text. Keys of other namespaces are not looked at.
        secret_keys: full keys whose value is stored as a secret.
        stack: name of the stack.

    Raises:
        SettingsError: with every fault.
    """
    faults: Faults = {}
    tree = _tree(values, faults)
    settings = _validated({**tree, STACK: stack}, faults)
    faults.update(_not_built(tree.get(f"{NAMESPACE}workloads")))
    if _SIGNING_KEY in values and _SIGNING_KEY not in secret_keys:
        faults.setdefault((_SIGNING_KEY,), refusals.plain_secret(_SIGNING_KEY))
    for place, fault in {**_previous_key(tree), **_image(tree)}.items():
        faults.setdefault(place, fault)
    misaligned = _misaligned(tree, faults)
    if settings is None or faults or misaligned:
        raise SettingsError([*faults.values(), *misaligned])
    return settings


def _tree(values: Mapping[str, str], faults: Faults) -> dict[str, Any]:
    """Values by full key, structures parsed."""
    tree: dict[str, Any] = {}
    for key in sorted(values):
        if key in STRUCTURED:
            try:
                tree[key] = json.loads(values[key])
            except ValueError:
                faults[key,] = refusals.refused((key,), values[key])
        elif key.startswith(NAMESPACE) or key in _PROVIDER_KEYS:
            tree[key] = values[key]
    return tree


def _validated(tree: Mapping[str, Any], faults: Faults) -> StackSettings | None:
    try:
        return StackSettings.model_validate(tree)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            place = tuple(str(part) for part in found["loc"][: 2 if found["loc"][0] in SECTIONS else 1])
            value = _at(tree, place)
            if found["type"] == "extra_forbidden":
                faults.setdefault(place, refusals.unknown(place, value))
            elif value is None:
                faults.setdefault(place, refusals.missing(place))
            else:
                faults.setdefault(place, refusals.refused(place, value))
        return None


def _at(tree: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    value: Any = tree
    for part in place:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _not_built(workloads: object) -> Faults:
    """Workloads that are known and that the program cannot deploy yet."""
    listed = workloads if isinstance(workloads, list) else []
    known = [word for word in listed if word in set(Workload) - BUILT]
    return {(f"{NAMESPACE}workloads", word): refusals.not_built(word) for word in known}


def _previous_key(tree: Mapping[str, Any]) -> Faults:
    """The second key has both its values or neither, is another one, and has an id of its own."""
    current = tree.get(_KEY_ID, DEFAULT_KEY_ID)
    passing = {_PREVIOUS_KEY: job_keys.PASSING, _PREVIOUS_ID: another_key_id(current)}
    missing = passing.keys() - tree.keys()
    if len(missing) == 1:
        (name,), (given,) = missing, passing.keys() & tree.keys()
        return {(name,): refusals.half_a_key(name, given, passing[name])}
    if not missing and job_keys.is_same_public_key(tree[_PREVIOUS_KEY], derive_public_key(tree.get(_SIGNING_KEY))):
        return {(_PREVIOUS_KEY,): refusals.same_key(_PREVIOUS_KEY, _SIGNING_KEY)}
    if not missing and tree[_PREVIOUS_ID] == current:
        return {(_PREVIOUS_ID,): refusals.same_key_id(_PREVIOUS_ID, current, _KEY_ID, passing[_PREVIOUS_ID])}
    return {}


def _image(tree: Mapping[str, Any]) -> Faults:
    """The stack names its image or builds it; what it builds needs a builder, and a repository to go to."""
    if _IMAGE_BUILD not in tree:
        return {} if _IMAGE in tree else {(_IMAGE,): refusals.no_image(_IMAGE, _IMAGE_BUILD)}
    if _IMAGE in tree:
        return {(_IMAGE_BUILD,): refusals.two_images(_IMAGE, _IMAGE_BUILD)}
    faults: Faults = {}
    if _REPOSITORY not in tree:
        faults[_REPOSITORY,] = refusals.no_repository(_REPOSITORY, _IMAGE_BUILD)
    if not is_builder_installed():
        faults[_IMAGE_BUILD,] = refusals.no_builder(_IMAGE_BUILD, _IMAGE)
    return faults


def _misaligned(tree: Mapping[str, Any], faults: Faults) -> list[Fault]:
    """Rules between settings, for those that hold by themselves; a faulty one is read as its default meanwhile."""
    plans = Plans(
        _section(tree, _WORKER, WorkerPlan, faults),
        _section(tree, _API, ApiPlan, faults),
        _section(tree, _EXECUTOR, ExecutorPlan, faults) if _EXECUTOR in tree else None,
        entry_points=bool(tree.get(_ENGINES)) and (_ENGINES,) not in faults,
    )
    return [
        refusals.misaligned(found)
        for found in misalignments(plans)
        if faults.keys().isdisjoint(refusals.place_of(setting) for setting in found.given)
    ]


def _section(tree: Mapping[str, Any], key: str, model: type[Plan], faults: Faults) -> Plan:
    value = tree.get(key)
    given = value if isinstance(value, dict) else {}
    return model.model_validate({name: given[name] for name in given if (key, name) not in faults})
