"""The keys of the API's callers: `API_KEY_HASHES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from runtime.contract.settings.parse import EnvironmentReader

NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})

_VARIABLE: Final = "API_KEY_HASHES"
_ENTRY: Final = re.compile(r"([a-z][a-z0-9-]{0,62})=([0-9a-f]{64})")
_RULE: Final = (
    "must be a comma list of NAME=HASH, each name once and of lower case letters, digits and hyphens, each hash the "
    "64 hexadecimal digits of the SHA-256 of the key's secret part"
)


def read_key_hashes(env: EnvironmentReader) -> Mapping[str, str]:
    """Name of a caller -> SHA-256 of its key's secret part; empty where the variable is not set."""
    value = env.optional(_VARIABLE)
    if value is None:
        return NO_KEYS
    keys: dict[str, str] = {}
    for part in value.split(","):
        match = _ENTRY.fullmatch(part.strip())
        if match is None or match[1] in keys:
            env.refuse(
                _VARIABLE,
                "invalid_api_key_hashes",
                _RULE,
                "shop=(the hash that `holdfast keys new shop` prints)",
                secret=True,
            )
            return NO_KEYS
        keys[match[1]] = match[2]
    return MappingProxyType(keys)


def render_key_hashes(keys: Mapping[str, str]) -> str:
    """The list that `read_key_hashes` reads back."""
    return ",".join(f"{name}={digest}" for name, digest in keys.items())
