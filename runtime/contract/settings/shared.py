"""Settings that several roles spell alike: project, port, addresses, job keys, log level."""

from __future__ import annotations

from typing import Final

from runtime.contract.settings import job_keys, rules
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.words import LogLevel

DEFAULT_KEY_ID: Final = "backend-es256-v1"
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


def read_public_key(env: EnvironmentReader, *, required: bool) -> str:
    """`BACKEND_PUB`: base64 of the PEM of the job tokens' public key; "" where it is optional and not set.

    Never trimmed: whitespace around the value is refused by every role alike. A refused value is not repeated: it may
    be the private key, set to the wrong variable.
    """
    name = "BACKEND_PUB"
    if env.optional(name) is None:
        if required:
            env.required(name, job_keys.PASSING)
        return ""
    value = env.raw(name) or ""
    if not job_keys.is_public_key(value):
        env.refuse(name, "invalid_backend_pub", job_keys.PUBLIC_RULE, job_keys.PASSING, secret=True)
    return value


def read_key_id(env: EnvironmentReader) -> str:
    """`BACKEND_KID`: the job tokens' key id."""
    name = "BACKEND_KID"
    return env.text(
        name, rules.KEY_ID_RULE, "invalid_backend_kid", rules.is_key_id, DEFAULT_KEY_ID, default=DEFAULT_KEY_ID
    )


def read_log_level(env: EnvironmentReader) -> LogLevel:
    """`LOG_LEVEL`, else its alias `RUST_LOG`; `trace` and `warn` are read as `debug` and `warning`."""
    name = "LOG_LEVEL" if env.optional("LOG_LEVEL") else "RUST_LOG"
    value = (env.optional(name) or LogLevel.INFO).lower()
    try:
        return LogLevel(_LEVELS.get(value, value))
    except ValueError:
        env.refuse(name, "invalid_log_level", f"must be one of {', '.join(LogLevel)}", LogLevel.INFO)
        return LogLevel.INFO
