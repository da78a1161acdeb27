"""The connector of the sandbox fails as the one of production does."""

from __future__ import annotations

import socket
from pathlib import Path

import aiohttp
import pytest

from sandbox.network import Address, Hosts, LoopbackConnector


async def test_a_place_where_nobody_listens_is_an_error_of_connecting(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = Address(port=nobody.getsockname()[1])
        hosts = Hosts({"port.example": port, "path.example": Address(path=str(tmp_path / "nobody"))})
        async with aiohttp.ClientSession(connector=LoopbackConnector(hosts), trust_env=False) as session:
            for host in hosts.table:
                with pytest.raises(aiohttp.ClientConnectorError, match=host):
                    await session.get(f"https://{host}/")
