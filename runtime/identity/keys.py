"""The pair of keys that jobs are signed with: EC P-256."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.settings.job_keys import decode_pem


class UnusableKey(HoldfastError):
    """A text that is no EC P-256 key in PEM; the message repeats nothing of it."""

    code = "unusable_job_key"


class JobKeys(Struct, frozen=True):
    """A pair in PEM.

    Attributes:
        private_pem: PKCS#8, unencrypted; signs.
        public_pem: verifies.
    """

    private_pem: str
    public_pem: str

    def __repr__(self) -> str:
        return f"JobKeys(public_pem={self.public_pem!r})"


def generate_job_keys() -> JobKeys:
    """A new pair."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return JobKeys(private.decode(), _public_pem(key))


def public_key_of(private_pem: str) -> str:
    """The public half, in PEM.

    Raises:
        UnusableKey
    """
    try:
        key = serialization.load_pem_private_key(private_pem.encode(), password=None)
    except (ValueError, TypeError):
        raise UnusableKey("not an unencrypted private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UnusableKey("not a private key of the curve P-256, which ES256 signs with")
    return _public_pem(key)


def belong_together(private_pem: str, public_pem: str) -> bool:
    """Whether what one signs the other verifies; a check of the start, before any job is signed in vain.

    Raises:
        UnusableKey
    """
    return "".join(public_key_of(private_pem).split()) == "".join(public_pem.split())


def environment_value(pem: str) -> str:
    """A key as `BACKEND_KEY` and `BACKEND_PUB` carry it: base64 of the PEM."""
    return base64.b64encode(pem.encode()).decode()


def pem_of_environment(value: str) -> str:
    """The PEM that `BACKEND_KEY` or `BACKEND_PUB` carries.

    Raises:
        UnusableKey
    """
    pem = decode_pem(value)
    if pem is None:
        raise UnusableKey("not strict base64 of a PEM")
    return pem


def _public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    public = key.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
