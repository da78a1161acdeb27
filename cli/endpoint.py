"""Which API a command talks to, and as whom."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cli.failure import CommandFailed, ExitCode

LOCAL_ENDPOINT: Final = Path(".holdfast/local/endpoint.json")
"""Where `holdfast up` leaves its address, for the other commands in the same checkout."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API.

    Attributes:
        url: without a trailing slash.
        key: API key.
    """

    url: str
    key: str = field(repr=False)


def find_endpoint(environ: Mapping[str, str] | None = None, local: Path = LOCAL_ENDPOINT) -> Endpoint:
    """The API named by HOLDFAST_URL and HOLDFAST_KEY, else the one that runs on this machine.

    Raises:
        CommandFailed: neither is there, or only half of the first.
    """
    env = os.environ if environ is None else environ
    url, key = env.get("HOLDFAST_URL", ""), env.get("HOLDFAST_KEY", "")
    if bool(url) != bool(key):
        missing = "HOLDFAST_KEY" if url else "HOLDFAST_URL"
        raise CommandFailed(f"{missing} is not set: HOLDFAST_URL and HOLDFAST_KEY go together", ExitCode.USAGE)
    if url:
        return Endpoint(url.rstrip("/"), key)
    if not local.exists():
        raise CommandFailed(
            "nothing runs here: start it with `make up`, or set HOLDFAST_URL and HOLDFAST_KEY", ExitCode.UNREACHABLE
        )
    body = json.loads(local.read_text())
    return Endpoint(body["url"], body["key"])
