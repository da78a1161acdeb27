"""python-jose, without what it has for keys inside X.509 certificates: here a key is a PEM of its own, or of a key set.

Its backend imports `cryptography.x509` for them: a tenth of a start, most of it patterns for names that nothing reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final, NoReturn

_CERTIFICATES: Final = "cryptography.x509"


def _refuse(*_: object) -> NoReturn:
    raise ValueError("a certificate is no key here")


@contextmanager
def _without_certificates() -> Iterator[None]:
    """What is imported meanwhile finds a stand-in; whoever needs the real module afterwards gets it."""
    if _CERTIFICATES in sys.modules:
        yield
        return
    stand_in = ModuleType(_CERTIFICATES)
    stand_in.__dict__["load_pem_x509_certificate"] = _refuse
    sys.modules[_CERTIFICATES] = stand_in
    try:
        yield
    finally:
        del sys.modules[_CERTIFICATES]


with _without_certificates():
    from jose import jwk, jws
    from jose.backends.base import Key
    from jose.exceptions import JOSEError

__all__ = ["JOSEError", "Key", "jwk", "jws"]
