"""`ignore_changes`: the old values of some property paths stay."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_STEP: Final = re.compile(r"(?P<key>[^.\[\]]+)|\[(?P<index>[0-9]+)\]")


def with_ignored(new: Mapping[str, Any], old: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The new inputs with the old value at every ignored path.

    Args:
        new: inputs as declared.
        old: inputs as they are.
        paths: `template.containers[0].image`; a path that either side lacks is left alone.

    Raises:
        ValueError: a path with wildcards, which the embedded engine does not have.
    """
    merged = copy.deepcopy(dict(new))
    for path in paths:
        if "*" in path:
            raise ValueError(f"ignore_changes path {path!r} has a wildcard; name the properties one by one")
        steps = [int(step["index"]) if step["index"] else step["key"] for step in _STEP.finditer(path)]
        _copy_over(merged, old, steps)
    return merged


def _copy_over(new: Any, old: Any, steps: list[str | int]) -> None:
    for step in steps[:-1]:
        if not (_has(new, step) and _has(old, step)):
            return
        new, old = new[step], old[step]
    last = steps[-1]
    if _has(old, last) and (isinstance(new, dict) or _has(new, last)):
        new[last] = copy.deepcopy(old[last])
    elif isinstance(new, dict):
        new.pop(last, None)


def _has(container: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(container, list) and step < len(container)
    return isinstance(container, Mapping) and step in container
