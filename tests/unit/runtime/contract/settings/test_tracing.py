"""Where traces go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.tracing import NO_TRACES, TracingSettings
from tests.support.settings import codes, executor_env

ENDPOINT = "https://telemetry.googleapis.com"
TRACES, ALL = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


def read(**changes: str) -> TracingSettings:
    return ExecutorSettings.from_env(executor_env(GCP_PROJECT_ID="my-project", **changes)).tracing


def test_nothing_is_exported_where_no_endpoint_is_named() -> None:
    assert read() == read(GCP_REQUIRE_OTEL="False") == NO_TRACES


def test_what_is_said_of_traces_goes_before_what_is_said_of_all_signals() -> None:
    assert read(**{ALL: "https://all.example"}).endpoint == "https://all.example"
    assert read(**{ALL: "https://all.example", TRACES: ENDPOINT}).endpoint == ENDPOINT
    assert read(OTEL_EXPORTER_OTLP_TIMEOUT="7").timeout == timedelta(milliseconds=7)
    both = {"OTEL_EXPORTER_OTLP_TIMEOUT": "7", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "2500"}
    assert read(**both).timeout == timedelta(seconds=2.5)


@pytest.mark.parametrize("value", ["true", "TRUE", "True"])
def test_traces_may_be_required(value: str) -> None:
    assert read(GCP_REQUIRE_OTEL=value, **{TRACES: ENDPOINT}).required


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({TRACES: "http://telemetry.googleapis.com"}, "invalid_trace_endpoint"),
        ({TRACES: "telemetry.googleapis.com:443"}, "invalid_trace_endpoint"),
        ({TRACES: "https://telemetry.googleapis.com/v1/traces"}, "invalid_trace_endpoint"),
        ({TRACES: "https://user@telemetry.googleapis.com"}, "invalid_trace_endpoint"),
        ({ALL: "https://telemetry.googleapis.com/"}, "invalid_trace_endpoint"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "invalid_number"),
        ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0"}, "number_out_of_range"),
        ({"GCP_REQUIRE_OTEL": "yes"}, "invalid_require_otel"),
        ({"GCP_REQUIRE_OTEL": "true"}, "missing_trace_endpoint"),
        ({"GCP_REQUIRE_OTEL": "true", TRACES: ENDPOINT, "GCP_PROJECT_ID": None}, "missing_trace_project"),
    ],
)
def test_what_could_not_be_exported_is_refused(changes: dict[str, str | None], code: str) -> None:
    assert codes(ExecutorSettings, executor_env(**{"GCP_PROJECT_ID": "my-project", **changes})) == [code]
