"""API keys: `hf_NAME_SECRET`. Only the SHA-256 of the secret is ever kept."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from runtime.contract import names
from runtime.contract.errors import HoldfastError
from runtime.ports.documents import Key, Value

SECRET_BYTES: Final = 32
"""Randomness of a secret: 256 bits, so that its plain hash cannot be searched."""
KEY_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
KEY_NAME_RULE: Final = "1 to 63 lower case letters, digits and -, starting with a letter"

_KEY: Final = re.compile(rb"hf_([a-z][a-z0-9-]{0,62})_([A-Za-z0-9_-]{16,128})")


class Scope(StrEnum):
    """What a key may do."""

    RUNS = "runs"
    """Submit, read and cancel runs: all of them, whoever submitted them."""
    ADMIN = "admin"
    """Create, list and revoke keys; and all that RUNS may."""


class KeyUnreadable(HoldfastError):
    """A stored key that this version cannot read."""

    code = "api_key_unreadable"


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key as a caller sends it, already without its secret."""

    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, once the key is verified."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether the key has a scope; ADMIN has every one."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key as kept in `api_keys/{name}`. A revoked one stays: its name stands in runs and is not given twice."""

    name: str
    hash: str
    scopes: list[Scope]
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None

    def __repr__(self) -> str:
        """Without the hash."""
        return f"KeyRecord({self.name} {self.scopes} revoked_at={self.revoked_at})"

    def document(self) -> dict[str, Value]:
        """The stored form."""
        data: dict[str, Value] = msgspec.to_builtins(self, builtin_types=(datetime,))
        return data


def key_of(name: str) -> Key:
    """Where a key is kept."""
    return Key(names.API_KEYS, name)


def read_key(data: Mapping[str, Value]) -> KeyRecord:
    """The key of a stored document.

    Raises:
        KeyUnreadable
    """
    try:
        return msgspec.convert(dict(data), KeyRecord)
    except msgspec.ValidationError as error:
        raise KeyUnreadable(f"the API key {data.get('name')!r} cannot be read: {error}") from error


def parse_key(token: bytes) -> PresentedKey | None:
    """The key in a bearer token; None where it has not the form of one."""
    match = _KEY.fullmatch(token)
    return None if match is None else PresentedKey(match[1].decode(), hashlib.sha256(match[2]).hexdigest())


def make_key(name: str) -> tuple[str, str]:
    """A new key, and the hash of its secret."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"hf_{name}_{secret}", hashlib.sha256(secret.encode()).hexdigest()
