"""What a push token must be made for."""

from __future__ import annotations

import re
from typing import Final

HOST_MAX: Final = 253
"""Longest host name, RFC 1035."""

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)


def audience_of_host(host: str) -> str | None:
    """The audience of a service that is called by this `Host`; None where it names no host.

    A port other than 443, a path, user information, several values: none of these is an address that the broker was
    given. Forwarded headers must never be passed in: any caller writes those.
    """
    name = host.strip(" \t").lower().removesuffix(":443")
    return f"https://{name}" if len(name) <= HOST_MAX and _HOST.fullmatch(name) else None


def expected_audience(pinned: str | None, host: str) -> str | None:
    """The pinned audience, whatever the host says; without one, that of the host."""
    return pinned or audience_of_host(host)
