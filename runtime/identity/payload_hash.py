"""The hash that binds a job's token to every field of its payload."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import rfc8785

from runtime.contract import names
from runtime.contract.errors import HoldfastError

TOKEN_FIELD: Final = "executor_jwt"
"""The one field that the hash leaves out: the token that carries it."""


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
        # The library checks types itself and raises on each that JSON does not have.
        return rfc8785.dumps(signed)  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError as error:
        raise PayloadNotCanonical(f"the payload has no canonical form: {error}") from None
    except (UnicodeEncodeError, RecursionError) as error:
        raise PayloadNotCanonical(f"the payload has no canonical form: {type(error).__name__}") from None
