"""Real addresses, carried to this machine: hosts of the platform go to loopback, over plain HTTP.

Services keep using `https://NAME-NUMBER.REGION.run.app`, `https://www.googleapis.com` and the metadata server's
address; only the connector, which the launcher hands in, knows that they are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP port on loopback, or a unix socket."""

    port: int = 0
    path: str = ""

    def to_json(self) -> dict[str, object]:
        """For handing to a child process."""
        return {"port": self.port, "path": self.path}


@dataclass(slots=True)
class Hosts:
    """Host name or pattern (`*.run.app`) -> where it is on this machine."""

    table: dict[str, Address] = field(default_factory=dict)

    def add(self, pattern: str, address: Address) -> None:
        """Adds or replaces a host or pattern; the first match in order of adding wins."""
        self.table[pattern] = address

    def find(self, host: str) -> Address | None:
        """Where a host is, or None."""
        return next((address for pattern, address in self.table.items() if fnmatchcase(host, pattern)), None)

    def to_json(self) -> dict[str, object]:
        """For handing to a child process."""
        return {pattern: address.to_json() for pattern, address in self.table.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Mapping[str, object]]) -> Hosts:
        """The table that `to_json` wrote."""
        return cls(
            {pattern: Address(int(str(row.get("port", 0))), str(row.get("path", ""))) for pattern, row in body.items()}
        )

    def merged(self, others: Iterable[tuple[str, Address]]) -> Hosts:
        """A copy with further hosts, which win over the present ones."""
        first = dict(others)
        return Hosts({**first, **{name: place for name, place in self.table.items() if name not in first}})


class UnknownHostError(aiohttp.ClientConnectionError):
    """A host that is not part of the sandbox."""


class LoopbackConnector(aiohttp.BaseConnector):
    """Connects every known host to its place on this machine, without TLS, and refuses every other host."""

    def __init__(self, hosts: Hosts, *, limit: int = 0) -> None:
        super().__init__(limit=limit)
        self._hosts = hosts

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],  # noqa: ARG002 - the base class calls it so
        timeout: aiohttp.ClientTimeout,
    ) -> ResponseHandler:
        host = req.url.host or ""
        address = self._hosts.find(host)
        if address is None:
            raise UnknownHostError(f"{host} is not a host of this sandbox")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout.sock_connect):
                if address.path:
                    _, protocol = await loop.create_unix_connection(self._factory, address.path)
                else:
                    _, protocol = await loop.create_connection(self._factory, "127.0.0.1", address.port)
        except TimeoutError:
            raise
        except OSError as error:
            # As the connector of production says that nothing was sent yet.
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return protocol
