"""Names of images that Cloud Run can run, and that cannot change under it."""

from __future__ import annotations

import re
from typing import Final

_BY_DIGEST: Final = re.compile(r"(?:(?P<host>[^\s@/]*)/)?[^\s@]+@sha256:[0-9a-f]{64}", re.ASCII)
_PULLED: Final = re.compile(r"(?:[a-z0-9-]+\.)?gcr\.io|(?:[a-z0-9-]+-)?docker\.pkg\.dev|docker\.io", re.ASCII)
"""Registries that Cloud Run pulls from, as its refusal of another one lists them."""


def is_image(value: str) -> bool:
    """Whether a name has a digest, and is in a registry that Cloud Run pulls from."""
    match = _BY_DIGEST.fullmatch(value)
    if match is None:
        return False
    host = match["host"] or ""
    # As Docker reads it: without a dot, a colon and this word it is no host, and the image is on Docker Hub.
    return not (set(".:") & set(host) or host == "localhost") or _PULLED.fullmatch(host) is not None
