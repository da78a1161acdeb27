"""Where traces go, which every role spells alike."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, NamedTuple

from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import in_milliseconds

ENDPOINT_RULE: Final = "must be `https://` and a host, with a port where it is not 443, and nothing after it"
GOOGLE: Final = "https://telemetry.googleapis.com"
"""Google Cloud's receiver, whose callers need `roles/telemetry.tracesWriter`."""
DEFAULT_TIMEOUT: Final = 10_000
"""Milliseconds; OpenTelemetry's own."""
LONGEST_TIMEOUT: Final = 60_000

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_REQUIRED: Final = "GCP_REQUIRE_OTEL"
_ENDPOINT: Final = re.compile(r"https://[A-Za-z0-9.-]{1,253}(:[1-9][0-9]{0,4})?", re.ASCII)


class TracingSettings(NamedTuple):
    """Where a role's spans go.

    Attributes:
        endpoint: `https://HOST[:PORT]` of a receiver that speaks OTLP over gRPC; None exports nothing.
        timeout: of one export.
        required: True ends a start at which nothing could be exported.
    """

    endpoint: str | None = None
    timeout: timedelta = timedelta(milliseconds=DEFAULT_TIMEOUT)
    required: bool = False


NO_TRACES: Final = TracingSettings()
"""Nothing is exported."""


def is_endpoint(value: str) -> bool:
    """See ENDPOINT_RULE."""
    return _ENDPOINT.fullmatch(value) is not None


def read_tracing(env: EnvironmentReader, project_id: str | None) -> TracingSettings:
    """Endpoint and timeout, each from the variable for traces or else from the one for all signals.

    Timeouts are milliseconds, as the specification of OpenTelemetry has it. `GCP_REQUIRE_OTEL=true` asks for an
    endpoint, and for the project that is charged.
    """
    endpoint_name = next((name for name in _ENDPOINTS if env.optional(name) is not None), _ENDPOINTS[0])
    endpoint = env.optional(endpoint_name)
    if endpoint is not None and not is_endpoint(endpoint):
        env.refuse(endpoint_name, "invalid_trace_endpoint", ENDPOINT_RULE, GOOGLE)
    timeout_name = next((name for name in _TIMEOUTS if env.raw(name) is not None), _TIMEOUTS[0])
    timeout = env.milliseconds(timeout_name, 1, LONGEST_TIMEOUT, DEFAULT_TIMEOUT)
    required = _read_required(env)
    if required and endpoint is None:
        detail = f"{_REQUIRED} is true, but no endpoint is set; for example {_ENDPOINTS[0]}={GOOGLE}"
        env.fault(_REQUIRED, "missing_trace_endpoint", detail)
    if required and project_id is None:
        detail = f"{_REQUIRED} is true, but GCP_PROJECT_ID is not set: nobody would be charged for the traces"
        env.fault(_REQUIRED, "missing_trace_project", detail)
    return TracingSettings(endpoint=endpoint, timeout=timeout, required=required)


def render_tracing(settings: TracingSettings) -> dict[str, str]:
    """The variables that `read_tracing` reads back; none where nothing is exported."""
    if settings.endpoint is None:
        return {}
    env = {_ENDPOINTS[0]: settings.endpoint, _TIMEOUTS[0]: in_milliseconds(settings.timeout)}
    return {**env, _REQUIRED: "true"} if settings.required else env


def _read_required(env: EnvironmentReader) -> bool:
    value = (env.optional(_REQUIRED) or "false").lower()
    if value not in {"true", "false"}:
        env.refuse(_REQUIRED, "invalid_require_otel", "must be true or false, in any case", "true")
    return value == "true"
