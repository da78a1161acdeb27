"""The hosts that flows may send requests to: `EXECUTION_HTTP_HOSTS`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from runtime.contract.settings.parse import EnvironmentReader

HTTP_HOSTS: Final = "EXECUTION_HTTP_HOSTS"
HOSTS_RULE: Final = (
    "must list hosts, each once: a name or an IPv4 address in lower case, or *.NAME for all names below one of two or "
    "more parts; no scheme, port, path or last dot, other alphabets as xn--"
)
PASSING: Final = ("api.example.com", "*.example.org")

_HOST_CHARACTERS: Final = 253
"""Of a name, RFC 1035 section 3.1 without its last dot."""
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\*\.{_LABEL}(?:\.{_LABEL})+", re.ASCII)


def read_http_hosts(env: EnvironmentReader) -> tuple[str, ...] | None:
    """The hosts of a comma list; None where the variable is not set: any public host."""
    value = env.optional(HTTP_HOSTS)
    if value is None:
        return None
    hosts = tuple(part.strip() for part in value.split(","))
    if not are_hosts(hosts):
        env.refuse(HTTP_HOSTS, "invalid_http_hosts", HOSTS_RULE, ",".join(PASSING))
    return hosts


def are_hosts(hosts: Sequence[object]) -> bool:
    """Whether a list satisfies HOSTS_RULE; an empty one does not: it would be no list, which allows every host."""
    fit = all(isinstance(host, str) and len(host) <= _HOST_CHARACTERS and _HOST.fullmatch(host) for host in hosts)
    return bool(hosts) and fit and len(set(hosts)) == len(hosts)


def render_http_hosts(hosts: tuple[str, ...] | None) -> str | None:
    """The list that `read_http_hosts` reads back; None leaves the variable out."""
    return None if hosts is None else ",".join(hosts)


def is_listed(hosts: Sequence[str], host: str) -> bool:
    """Whether a host is one of a list's, or below one of its `*.` names; a last dot and its case do not matter.

    Args:
        hosts: as `read_http_hosts` gives them.
        host: as a request names it.
    """
    name = host.lower().removesuffix(".")
    return any(_is_below(name, listed[1:]) if listed.startswith("*.") else name == listed for listed in hosts)


def _is_below(name: str, ending: str) -> bool:
    return name.endswith(ending) and len(name) > len(ending)
