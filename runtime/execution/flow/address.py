"""Which addresses a flow may reach: only public ones, whatever name leads to them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_RELAYS: Final = ipaddress.IPv4Network("192.88.99.0/24")
"""Once the way to 6to4 relays, since RFC 7526 nobody's: whoever announces it now is near."""

AllowAddress = Callable[[str, int, Address], bool]
"""Asked for an address that is refused by default: host as written, port, address -> whether it may be reached."""


class AddressRefused(OSError):
    """A name leads to an address that a flow may not reach."""


def is_public(address: Address) -> bool:
    """Whether an address is on the internet: not loopback, link-local (metadata servers), private, shared, multicast,
    reserved or given up, and not an IPv6 form that a network may carry to an IPv4 address of those.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour or address.teredo or address.is_site_local:
            return False
    elif address in _RELAYS:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class PublicResolver(AbstractResolver):
    """Resolves names, and gives the connector only addresses that may be reached: it connects to exactly these.

    Args:
        allow: may let more addresses through; None: none.
        lookup: resolves without judging; None: the system's resolver.
    """

    def __init__(self, allow: AllowAddress | None = None, lookup: AbstractResolver | None = None) -> None:
        self._allow = allow
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name.

        Raises:
            AddressRefused: one of them may not be reached; all are refused then, so that no order of answers helps.
            OSError: the name cannot be resolved.
        """
        if self._lookup is not None:
            found = await self._lookup.resolve(host, port, family)
        else:
            found = await _system_lookup(host, port, family)
        for row in found:
            self.check(host, port, row["host"])
        return found

    def check(self, host: str, port: int, address: str) -> None:
        """Refuses an address that may not be reached."""
        parsed = ipaddress.ip_address(address.partition("%")[0])
        if not is_public(parsed) and not (self._allow is not None and self._allow(host, port, parsed)):
            raise AddressRefused(f"{host!r} leads to an address that is not public")

    async def close(self) -> None:
        """Holds nothing."""


async def _system_lookup(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    rows = await asyncio.get_running_loop().getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=int(address[1]),
            family=found,
            proto=proto,
            flags=socket.AI_NUMERICHOST,
        )
        for found, _, proto, _, address in rows
    ]
