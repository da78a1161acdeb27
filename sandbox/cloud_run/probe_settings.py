"""Probes of a container as they are declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from runtime.contract.limits import STARTUP_WINDOW_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """One probe; times in seconds.

    Attributes:
        path: of an HTTP probe; None where opening the port suffices.
        initial_delay: before the first try.
        timeout: of one try.
        period: between two tries.
        failures: tries in a row that must fail.
        successes: tries in a row that must pass after a failure.
        headers: sent with an HTTP probe.
    """

    path: str | None = None
    initial_delay: float = 0
    timeout: float = 1
    period: float = 10
    failures: int = 3
    successes: int = 1
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def window(self) -> float:
        """Seconds within which a start must have passed."""
        return self.initial_delay + self.period * self.failures

    @classmethod
    def declared(cls, row: Mapping[str, Any] | None) -> Self | None:
        """Reads a probe of a container; None where there is none. A gRPC probe counts as one that opens the port."""
        if not row:
            return None
        http = row.get("httpGet")
        headers = (http or {}).get("httpHeaders") or ()
        return cls(
            path=None if http is None else str(http.get("path") or "/"),
            initial_delay=float(row.get("initialDelaySeconds") or 0),
            timeout=float(row.get("timeoutSeconds") or 1),
            period=float(row.get("periodSeconds") or 10),
            failures=int(row.get("failureThreshold") or 3),
            successes=int(row.get("successThreshold") or 1),
            headers=tuple((str(header["name"]), str(header.get("value") or "")) for header in headers),
        )


def startup_default() -> ProbeSettings:
    """What the platform asks of a container without a startup probe: that its port opens within four minutes."""
    window = float(STARTUP_WINDOW_MAX)
    return ProbeSettings(timeout=window, period=window, failures=1)
