"""The values of a stack file, as the real engine hands them to a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from runtime.contract.errors import HoldfastError

_BUILD: Final = "holdfast:image_build"


class StackFileUnusable(HoldfastError):
    """A stack file that cannot be read."""

    code = "stack_file_unusable"


def read_stack_file(path: Path) -> dict[str, str]:
    """Full key -> value; structures as JSON text. Secrets are not in it: they are given beside the file.

    Raises:
        StackFileUnusable: or it is of a stack that nothing here can deploy.
    """
    try:
        body = yaml.safe_load(path.read_text())
    except OSError as error:
        raise StackFileUnusable(f"{path}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise StackFileUnusable(f"{path}{line}: is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise StackFileUnusable(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    values = body.get("config") if isinstance(body, Mapping) else None
    if not isinstance(values, Mapping):
        raise StackFileUnusable(f"{path}: has no `config:`, under which the stack's values belong")
    if _BUILD in values:
        raise StackFileUnusable(
            f"{path}: {_BUILD} needs a builder, which nothing has offline; name an image instead, holdfast:image"
        )
    return {str(key): config_text(value) for key, value in values.items()}


def config_text(value: Any) -> str:
    """A value as the engine passes it: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def merged(base: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """Values with changes: a mapping is merged into the structure of its key, anything else replaces."""
    result = dict(base)
    for key, change in changes.items():
        if isinstance(change, Mapping) and key in result:
            result[key] = json.dumps({**json.loads(result[key]), **change})
        else:
            result[key] = config_text(change)
    return result
