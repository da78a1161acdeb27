"""Which service a request is for, and whether the network lets it through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sandbox.cloud_run.declared import DeclaredService, Ingress

_PLATFORM: Final = ".run.app"


class Entrance(StrEnum):
    """Where a request came in."""

    INTERNAL = "internal"
    """From Google's own services, or through a VPC that covers the address."""
    EXTERNAL = "external"
    """From people, and from services without such a VPC."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Hosts of the declared services.

    Attributes:
        by_host: deterministic host -> service.
        default: service for people who come by a loopback address; None where there is none.
    """

    by_host: dict[str, DeclaredService]
    default: DeclaredService | None = None

    @classmethod
    def of(cls, services: Iterable[DeclaredService], default: str | None) -> Routes:
        """The routes to services; `default` names the public one."""
        by_host = {service.host: service for service in services}
        return cls(by_host, next((service for service in by_host.values() if service.name == default), None))

    def find(self, host_header: str, entrance: Entrance) -> DeclaredService | None:
        """The service of a `Host` header; None where the platform would answer 404.

        A host of the platform that no service has is never answered by the default: a wrong address must show.
        """
        host = _host(host_header)
        service = self.by_host.get(host)
        if entrance is Entrance.INTERNAL:
            return service
        if service is None and not host.endswith(_PLATFORM):
            service = self.default
        return service if service is not None and service.ingress is Ingress.ALL else None


def _host(header: str) -> str:
    host, _, port = header.rpartition(":")
    return (host if host and port.isdigit() else header).lower().rstrip(".")
