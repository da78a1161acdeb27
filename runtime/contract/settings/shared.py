"""Settings that several roles spell alike: project, port, addresses, log level."""

from __future__ import annotations

from typing import Final

from runtime.contract.settings import rules
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.words import LogLevel

PLATFORM_VARIABLES: Final = frozenset({"PORT"})
"""Variables that the platform sets; a service template may not declare them."""

_EXAMPLE_ADDRESS: Final = "https://api-123456789012.europe-west1.run.app"
_EXAMPLE_ACCOUNT: Final = "push@my-project.iam.gserviceaccount.com"
_LEVELS: Final = {"trace": "debug", "warn": "warning"}


def read_project(env: EnvironmentReader) -> str:
    """The project's id; required."""
    return env.text("GCP_PROJECT_ID", rules.PROJECT_RULE, "invalid_project_id", rules.is_project_id, "my-project")


def read_port(env: EnvironmentReader) -> int:
    """The one port of the container."""
    return env.number("PORT", 1, 65535, 8080)


def read_address(env: EnvironmentReader, name: str, code: str, *, required: bool) -> str | None:
    """The address of a service; None where it is optional and not set."""
    if not required and env.optional(name) is None:
        return None
    return env.text(name, rules.ADDRESS_RULE, code, rules.is_address, _EXAMPLE_ADDRESS)


def read_account(env: EnvironmentReader, name: str, code: str, *, required: bool) -> str | None:
    """The e-mail of a service account; None where it is optional and not set."""
    if not required and env.optional(name) is None:
        return None
    return env.text(name, rules.ACCOUNT_RULE, code, rules.is_service_account, _EXAMPLE_ACCOUNT)


def read_log_level(env: EnvironmentReader) -> LogLevel:
    """`LOG_LEVEL`, else its alias `RUST_LOG`; `trace` and `warn` are read as `debug` and `warning`."""
    name = "LOG_LEVEL" if env.optional("LOG_LEVEL") else "RUST_LOG"
    value = (env.optional(name) or LogLevel.INFO).lower()
    try:
        return LogLevel(_LEVELS.get(value, value))
    except ValueError:
        env.refuse(name, "invalid_log_level", f"must be one of {', '.join(LogLevel)}", LogLevel.INFO)
        return LogLevel.INFO
