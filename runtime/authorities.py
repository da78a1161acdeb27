"""The certificate authorities that TLS trusts: the machine's own, each read when a server's certificate names it.

OpenSSL otherwise reads the whole bundle, of some 150, into every context that is made, and aiohttp makes two when it is
imported: a fifth of a start. The folder beside the bundle has the same certificates under the hashes of their names.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


@contextmanager
def authorities_on_demand() -> Iterator[None]:
    """For the contexts that are made meanwhile; enter it before aiohttp is imported. Changes nothing where the
    environment names a bundle, or where the folder has less than the bundle: there each reads it whole.
    """
    paths = ssl.get_default_verify_paths()
    if not _folder_has_all(paths):
        yield
        return
    os.environ[paths.openssl_cafile_env] = os.devnull
    try:
        yield
    finally:
        del os.environ[paths.openssl_cafile_env]


def _folder_has_all(paths: ssl.DefaultVerifyPaths) -> bool:
    if paths.openssl_cafile_env in os.environ or not paths.cafile or not paths.capath:
        return False
    names = os.listdir(paths.capath)  # noqa: PTH208 - hundreds of names, of which no path is wanted
    hashed = sum(len(name) == 10 and name[8] == "." for name in names)
    return hashed >= Path(paths.cafile).read_bytes().count(_CERTIFICATE)
