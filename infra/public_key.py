"""The public key that belongs to a signing key: computed, so that no service can be told another one."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runtime.contract.settings import job_keys


def is_signing_key(value: str) -> bool:
    """Whether a value is a key that jobs can be signed with, see `job_keys.PRIVATE_RULE`."""
    return derive_public_key(value) is not None


def derive_public_key(signing_key: object) -> str | None:
    """The public half as `BACKEND_PUB` carries it.

    Args:
        signing_key: as the stack has it, base64 of a PEM, which may have been written without its public half.

    Returns:
        base64 of the PEM; None where that is no signing key.
    """
    if not isinstance(signing_key, str) or not job_keys.is_private_key(signing_key):
        return None
    try:
        key = serialization.load_pem_private_key((job_keys.decode_pem(signing_key) or "").encode(), password=None)
    except (ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        return None
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return base64.b64encode(key.public_key().public_bytes(serialization.Encoding.PEM, spki)).decode()
