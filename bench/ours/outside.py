"""What a worker reaches, with the emulator where Firestore is and a file of keys."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bench.setup import Setup
from runtime.ports.clock import Clock
from runtime.roles import Outside, Settings


class FileKeys:
    """The key set in a file."""

    def __init__(self, path: str) -> None:
        self._keys = {key["kid"]: key for key in json.loads(Path(path).read_bytes())["keys"]}

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        return self._keys


@asynccontextmanager
async def outside(_settings: Settings, _clock: Clock) -> AsyncIterator[Outside]:
    from bench.ours.emulator import OwnerTokens, firestore

    setup = Setup.read()
    async with aiohttp.ClientSession(trust_env=False) as session:
        yield Outside(
            documents=firestore(setup.firestore),
            publisher=None,
            session=session,
            key_source=FileKeys(setup.jwks),
            tokens=OwnerTokens(),
        )
