"""Probes of Cloud Run containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.contract.limits import STARTUP_WINDOW_MAX
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range

STARTUP_DEFAULT: Final = {
    "tcpSocket": {"port": 8080},
    "initialDelaySeconds": 0,
    "timeoutSeconds": 240,
    "periodSeconds": 240,
    "failureThreshold": 1,
}
"""What the platform asks of a container that declares no startup probe: that its port opens within four minutes."""

_COMMON: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3}
_DELAYED: Final = {"initialDelaySeconds": 0, **_COMMON}
_DEFAULTS: Final[Mapping[str, Mapping[str, int]]] = {
    "startupProbe": _DELAYED,
    "livenessProbe": _DELAYED,
    "readinessProbe": {**_COMMON, "successThreshold": 1},
}
_LONGEST: Final = {"startupProbe": 240, "livenessProbe": 3600, "readinessProbe": 300}
"""Seconds: longest initial delay and period."""


def with_probe_defaults(container: Mapping[str, Any], port: int) -> dict[str, Any]:
    """The declared probes of a container, with the platform's defaults filled in."""
    filled = {}
    for kind, defaults in _DEFAULTS.items():
        probe = container.get(kind)
        if probe is None:
            continue
        filled[kind] = {**defaults, **probe}
        if "httpGet" in probe:
            filled[kind]["httpGet"] = {"path": "/", "port": port, **probe["httpGet"]}
    return filled


def probe_failures(container: Mapping[str, Any], path: str) -> Iterator[Failure]:
    """Probes of a container, defaults filled in, that the platform refuses."""
    for kind, longest in _LONGEST.items():
        probe = container.get(kind)
        if probe is None:
            continue
        for failure in _one(probe, kind, longest):
            yield Failure(f"{path}.{kind}.{failure.path}", failure.reason)


def _one(probe: Mapping[str, Any], kind: str, longest: int) -> Iterator[Failure]:
    yield from in_range(probe, "initialDelaySeconds", 0, longest)
    yield from in_range(probe, "periodSeconds", 1, longest)
    period, failures = at(probe, "periodSeconds"), at(probe, "failureThreshold")
    yield from in_range(probe, "timeoutSeconds", 1, longest if period is None else period)
    yield from in_range(probe, "failureThreshold", 1, float("inf"))
    if len([way for way in ("httpGet", "tcpSocket", "grpc") if probe.get(way) is not None]) != 1:
        yield Failure("httpGet", "exactly one of httpGet, tcpSocket and grpc is needed")
    if None in {period, failures}:
        return
    window = period * failures
    if kind == "startupProbe" and window > STARTUP_WINDOW_MAX:
        yield Failure("failureThreshold", f"x periodSeconds is {window} s; it must be at most {STARTUP_WINDOW_MAX} s")
