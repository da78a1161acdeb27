"""Checks of the job keys' form without a cryptography library: the contract has none.

Only named-curve P-256 keys are accepted, which is what ES256 signs with.
"""

from __future__ import annotations

import re
from typing import Final

from runtime.contract.strict_base64 import decode_base64

PUBLIC_RULE: Final = (
    "must be strict standard base64, without blanks or line breaks, of a PEM with an EC P-256 public key; with any "
    "other key every job token would be refused"
)
PRIVATE_RULE: Final = (
    "must be strict standard base64, without blanks or line breaks, of a PEM with an unencrypted EC P-256 private key"
)
PASSING: Final = "$(base64 -w0 < key.pem)"

_PEM: Final = re.compile(
    r"\s*-----BEGIN (PUBLIC KEY|EC PRIVATE KEY|PRIVATE KEY)-----\s([A-Za-z0-9+/=\s]+)-----END \1-----\s*", re.ASCII
)
_P256: Final = bytes.fromhex("06082a8648ce3d030107")
"""DER of the object identifier prime256v1."""
_SPKI_P256: Final = bytes.fromhex("3059301306072a8648ce3d0201") + _P256 + bytes.fromhex("03420004")
"""DER in front of the two coordinates of an uncompressed public key."""
_PRIME: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
"""Coefficients of the curve y^2 = x^3 - 3x + b, SEC 2 section 2.4.2."""


def decode_pem(value: str) -> str | None:
    """The PEM text of a base64 value; None where it is not strict base64 of ASCII."""
    raw = decode_base64(value)
    return raw.decode() if raw is not None and raw.isascii() else None


def is_public_key(value: str) -> bool:
    """See PUBLIC_RULE."""
    der = _der(value, {"PUBLIC KEY"})
    if der is None or len(der) != len(_SPKI_P256) + 64 or not der.startswith(_SPKI_P256):
        return False
    x, y = (int.from_bytes(der[at : at + 32], "big") for at in (len(_SPKI_P256), len(_SPKI_P256) + 32))
    return max(x, y) < _PRIME and (y * y - (x * x * x - 3 * x + _B)) % _PRIME == 0


def is_private_key(value: str) -> bool:
    """See PRIVATE_RULE. Only the form is checked; that it belongs to the public key is a check of the start."""
    der = _der(value, {"EC PRIVATE KEY", "PRIVATE KEY"})
    return der is not None and der[:1] == b"\x30" and _P256 in der and 48 <= len(der) <= 256


def is_same_public_key(one: str | None, other: str | None) -> bool:
    """Whether two values are one key, however their PEMs are written; None and what is no key are like nothing."""
    point = _der(one or "", {"PUBLIC KEY"})
    return point is not None and point == _der(other or "", {"PUBLIC KEY"})


def _der(value: str, labels: set[str]) -> bytes | None:
    match = _PEM.fullmatch(decode_pem(value) or "")
    if match is None or match[1] not in labels:
        return None
    return decode_base64("".join(match[2].split()))
