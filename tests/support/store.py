"""What a running stack has stored, read beside it."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.adapters.postgres_schema import open_pool
from tests.support.local import RunningStack

_decode = msgspec.msgpack.Decoder().decode


async def stored(running: RunningStack, collection: str) -> dict[str, dict[str, Any]]:
    """The documents of a collection, by id."""
    pool = await open_pool(running.stack.postgres.dsn, size=1)
    try:
        rows = await pool.fetch("SELECT id, data FROM documents WHERE collection = $1", collection)
    finally:
        await pool.close()
    return {row["id"]: _decode(row["data"]) for row in rows}
