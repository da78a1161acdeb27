"""The SQL database of the worker that tracks files: reached by private address, with its own identity."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from runtime.contract.settings import rules
from runtime.contract.settings.parse import EnvironmentReader

CODE: Final = "postgres_config"
MODE: Final = "GCP_POSTGRES_AUTH_MODE"
HOST: Final = "GCP_POSTGRES_HOST"
DATABASE: Final = "GCP_POSTGRES_DATABASE"
USER: Final = "GCP_POSTGRES_USER"
SERVER_CA: Final = "GCP_POSTGRES_SERVER_CA"

NAME_MAX: Final = 63
"""PostgreSQL: longest name, bytes."""
CA_MAX: Final = 64 * 1024

_PRIVATE: Final = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+cloudsql\.goog")
_USER: Final = re.compile(r"[a-z0-9-]+@([a-z0-9-]+)\.iam")
_CA: Final = re.compile(r"(?:-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+", re.ASCII)


class SqlSettings(NamedTuple):
    """How the database is reached; always port 5432, TLS with the host's name verified, and IAM authentication.

    Attributes:
        host: private IPv4 address, or a name in cloudsql.goog.
        database: its name.
        user: `ACCOUNT@PROJECT.iam`.
        server_ca: PEM of the certificates that the server is verified with.
    """

    host: str
    database: str
    user: str
    server_ca: str


def read_sql(env: EnvironmentReader) -> SqlSettings:
    """Reads the group. Values are not trimmed, the certificates aside."""
    _exact(env, MODE, "must be exactly iam", "iam", lambda value: value == "iam")
    host = _exact(
        env, HOST, "must be a private IPv4 address, or a lower case name in cloudsql.goog", "10.0.0.3", _is_host
    )
    rule = f"must be 1 to {NAME_MAX} bytes without control characters"
    database = _exact(env, DATABASE, rule, "usage", _is_name)
    user = env.raw(USER) or ""
    if user.endswith(".gserviceaccount.com"):
        env.refuse(
            USER,
            CODE,
            "the database's user is the account's e-mail without .gserviceaccount.com",
            user.removesuffix(".gserviceaccount.com"),
        )
    else:
        rule = f"must be ACCOUNT@PROJECT.iam, at most {NAME_MAX} bytes"
        user = _exact(env, USER, rule, "files@my-project.iam", _is_user)
    return SqlSettings(host=host, database=database, user=user, server_ca=_read_certificates(env))


def render_sql(settings: SqlSettings) -> dict[str, str]:
    """The variables that `read_sql` reads back."""
    return {
        MODE: "iam",
        HOST: settings.host,
        DATABASE: settings.database,
        USER: settings.user,
        SERVER_CA: settings.server_ca,
    }


def _exact(env: EnvironmentReader, name: str, rule: str, passing: str, holds: Callable[[str], bool]) -> str:
    if env.required(name, passing) is None:
        return passing
    value = env.raw(name) or ""
    if not holds(value):
        env.refuse(name, CODE, rule, passing)
    return value


def _is_host(value: str) -> bool:
    if _HOST.fullmatch(value):
        return True
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return any(address in network for network in _PRIVATE)


def _is_name(value: str) -> bool:
    return 1 <= _bytes(value) <= NAME_MAX and value == value.strip() and value.isprintable()


def _is_user(value: str) -> bool:
    match = _USER.fullmatch(value)
    return match is not None and rules.is_project_id(match[1]) and _bytes(value) <= NAME_MAX


def _bytes(value: str) -> int:
    return len(value.encode(errors="replace"))


def _read_certificates(env: EnvironmentReader) -> str:
    value = env.required(SERVER_CA, "$(cat server-ca.pem)")
    if value is None:
        return ""
    pem = value.replace("\\n", "\n").strip()
    if len(pem) > CA_MAX or _CA.fullmatch(pem) is None:
        rule = f"must be one or more certificates in PEM, at most {CA_MAX} bytes, and never a private key"
        env.refuse(SERVER_CA, CODE, rule, "$(cat server-ca.pem)", secret=True)
    return pem
