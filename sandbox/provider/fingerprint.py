"""Recognises a secret input in a later run without keeping it."""

from __future__ import annotations

import hashlib
import json
import secrets as random
from collections.abc import Collection, Mapping
from typing import Any


def fingerprint(inputs: Mapping[str, Any], secrets: Collection[str], *, salt: str | None = None) -> str:
    """Salted digest of the secret inputs; "" where there are none.

    Args:
        inputs: all inputs.
        secrets: names of those that are secret.
        salt: 32 hexadecimal digits; None takes fresh ones, so that equal secrets do not look equal.
    """
    if not secrets:
        return ""
    salt = salt or random.token_hex(16)
    body = json.dumps({name: inputs.get(name) for name in sorted(secrets)}, sort_keys=True).encode()
    return f"{salt}{hashlib.blake2b(body, key=salt.encode(), digest_size=32).hexdigest()}"


def recognises(known: str, inputs: Mapping[str, Any], secrets: Collection[str]) -> bool:
    """Whether `known` was taken from these secret inputs."""
    if not known or not secrets:
        return not known and not secrets
    return known == fingerprint(inputs, secrets, salt=known[:32])
