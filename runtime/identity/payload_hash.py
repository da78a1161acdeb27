"""The hash that binds a job's token to every field of its payload."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
import rfc8785

from runtime.contract import names
from runtime.contract.errors import HoldfastError

TOKEN_FIELD: Final = "executor_jwt"
"""The one field that the hash leaves out: the token that carries it."""


_LARGEST: Final = 2**53 - 1
"""Of the whole numbers that every reader of JSON keeps."""
_MOST: Final = 2**21
"""Values that are looked at: more than the bytes of any payload can be."""
_EXACT: Final = frozenset({str, bool, type(None)})
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class PayloadNotCanonical(HoldfastError):
    """A payload without a canonical form: NaN, an integer beyond 2^53 - 1, a lone surrogate, a key that is no text."""

    code = "payload_not_canonical"


def dispatch_hash(payload: Mapping[str, object]) -> str:
    """SHA-256, in hexadecimal, over the domain, NUL, and the RFC 8785 form of the payload without its token.

    The order of keys and the spelling of numbers do not matter; every other difference does.

    Raises:
        PayloadNotCanonical
    """
    return hashlib.sha256(names.DISPATCH_HASH_DOMAIN + b"\0" + _canonical(payload)).hexdigest()


def _canonical(payload: Mapping[str, object]) -> bytes:
    signed = {name: value for name, value in payload.items() if name != TOKEN_FIELD}
    try:
        if _is_plain(signed):
            return _encode(signed)
        # The library checks types itself and raises on each that JSON does not have.
        return rfc8785.dumps(signed)  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError as error:
        raise PayloadNotCanonical(f"the payload has no canonical form: {error}") from None
    except (UnicodeEncodeError, RecursionError) as error:
        raise PayloadNotCanonical(f"the payload has no canonical form: {type(error).__name__}") from None


def _is_plain(payload: dict[str, object]) -> bool:
    """Whether both encoders write a payload alike: its names are in ASCII, which every order of texts sorts in one way,
    and it has no floats, whose digits RFC 8785 prescribes.
    """
    todo: list[object] = [payload]
    for value in todo:  # which grows meanwhile
        kind = type(value)
        if kind is int:
            if not -_LARGEST <= value <= _LARGEST:  # type: ignore[operator]  # an int
                return False
        elif isinstance(value, dict):
            if not all(type(name) is str and name.isascii() for name in value):
                return False
            todo += value.values()
        elif kind is list:
            todo += value  # type: ignore[arg-type]  # a list
        elif kind not in _EXACT or len(todo) > _MOST:
            return False
    return True
