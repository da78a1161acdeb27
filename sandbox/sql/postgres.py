"""A real PostgreSQL with its data in the sandbox's state folder, reached through a private unix socket."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

import asyncpg
import structlog

from runtime.adapters.clock import SystemClock
from runtime.ports.clock import Clock
from sandbox.private_folder import private_folder
from sandbox.sql.failure import PostgresFailed
from sandbox.sql.install import MAJOR, Install, find_install
from sandbox.sql.leftover import PATIENCE, end_server, running_server
from sandbox.sql.tuning import arguments

log = structlog.get_logger()

_SOCKET_NAME: Final = ".s.PGSQL.5432"
_POLL: Final = 0.02
_OLD_MEMORY: Final = "pre-existing shared memory block"
_USER: Final = "postgres"
_LOG_TAIL: Final = 5


class Postgres:
    """The server process and its database.

    Args:
        state_dir: its data is kept in `state_dir/postgres`, over restarts; one server a folder.
        database: created where it is missing.
        start_timeout: seconds for everything `start` does, recovery after a crash included.
        clock: None means the system's.
    """

    def __init__(
        self, state_dir: Path, *, database: str = "holdfast", start_timeout: float = 60, clock: Clock | None = None
    ) -> None:
        self._home = state_dir / "postgres"
        self._database = database
        self._start_timeout = start_timeout
        self._clock = clock or SystemClock()
        self._socket_dir: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._open = AsyncExitStack()

    @property
    def dsn(self) -> str:
        """Connection string of the database.

        Raises:
            PostgresFailed: the server was not started.
        """
        return self._dsn(self._database)

    @property
    def pid(self) -> int | None:
        """Process id of the server; None while it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Starts the server, after ending what a crashed run left behind, and creates the database.

        Raises:
            PostgresFailed: names what is missing, who holds the folder, or the end of the server's log.
        """
        try:
            async with self._clock.timeout(self._start_timeout):
                await self._start()
        except BaseException as error:
            await self.stop()
            if isinstance(error, TimeoutError):
                raise PostgresFailed(f"PostgreSQL did not start within {self._start_timeout:g} s") from None
            raise

    async def stop(self) -> None:
        """Ends the server, by force where it does not end by itself; returns with nothing left running."""
        process = self._process
        for number, seconds in PATIENCE:
            if process is None or process.returncode is not None:
                break
            try:
                process.send_signal(number)
                async with self._clock.timeout(seconds):
                    await process.wait()
            except (TimeoutError, ProcessLookupError):
                continue
        self._process = None
        await self._open.aclose()
        self._socket_dir = None

    async def _start(self) -> None:
        install = await asyncio.to_thread(find_install)
        self._home = await asyncio.to_thread(self._home.resolve)
        self._open.callback((await _locked(self._home)).close)
        data = self._home / "data"
        leftover = await asyncio.to_thread(running_server, data)
        if leftover is not None:
            log.warning("postgres_leftover_ended", pid=leftover)
            await end_server(leftover, self._clock)
        if not await asyncio.to_thread(_has_data, data):
            await self._create_data(install, data)
        self._socket_dir = await asyncio.to_thread(_socket_dir, install)
        self._open.push_async_callback(asyncio.to_thread, shutil.rmtree, self._socket_dir, ignore_errors=True)
        while not await self._serve(install, data):
            await self._clock.sleep(_POLL)
        await self._create_database()

    async def _create_data(self, install: Install, data: Path) -> None:
        # Built beside its place, so that an interrupted creation is begun anew and never used.
        partial = data.with_name("data.partial")
        await asyncio.to_thread(_empty_folder, partial, install)
        options = ("--username", _USER, "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C")
        process = await asyncio.create_subprocess_exec(
            *install.command("initdb", "-D", str(partial), *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={},
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise PostgresFailed(f"initdb ended with {process.returncode}: {_tail(output.decode(errors='replace'))}")
        await asyncio.to_thread(partial.rename, data)

    async def _serve(self, install: Install, data: Path) -> bool:
        """Starts the process and waits until it answers; False where an old server's memory is still being freed."""
        log_path = self._home / "log"
        with await asyncio.to_thread(log_path.open, "wb") as output:
            self._process = process = await asyncio.create_subprocess_exec(
                *install.command("postgres", "-D", str(data), *arguments(str(self._socket_dir))),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={},
                start_new_session=True,
            )
        while process.returncode is None:
            try:
                connection = await self._connect()
            except (OSError, asyncpg.PostgresError):
                await self._clock.sleep(_POLL)
                continue
            await connection.close()
            return True
        text = await asyncio.to_thread(log_path.read_text, errors="replace")
        if _OLD_MEMORY in text:
            return False
        raise PostgresFailed(f"PostgreSQL ended with {process.returncode}: {_tail(text)}")

    async def _create_database(self) -> None:
        connection = await self._connect()
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", self._database):
                name = self._database.replace('"', '""')
                await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        # A given password, even an empty one, keeps the driver from reading the user's password file.
        return await asyncpg.connect(self._dsn(_USER), password="")

    def _dsn(self, database: str) -> str:
        if self._socket_dir is None:
            raise PostgresFailed("PostgreSQL is not running: call start() first")
        return f"postgresql://{_USER}@/{quote(database)}?host={quote(str(self._socket_dir))}"


async def _locked(home: Path) -> IO[bytes]:
    """The lock of a folder, taken beside the loop; one that nobody waits for any more is given back."""
    locking = asyncio.create_task(asyncio.to_thread(_lock, home))
    try:
        return await asyncio.shield(locking)
    except asyncio.CancelledError:
        with suppress(PostgresFailed):
            (await locking).close()
        raise


def _lock(home: Path) -> IO[bytes]:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = (home / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise PostgresFailed(f"{home} is in use by another sandbox; stop it, or choose another state folder") from None
    return lock


def _has_data(data: Path) -> bool:
    version = data / "PG_VERSION"
    if not version.exists():
        return False
    found = version.read_text().strip()
    if found != MAJOR:
        raise PostgresFailed(f"{data} is of PostgreSQL {found}, this is {MAJOR}; remove the folder to begin anew")
    return True


def _empty_folder(path: Path, install: Install) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    install.give(path)


def _socket_dir(install: Install) -> Path:
    path = private_folder("holdfast-sql-", _SOCKET_NAME)
    install.give(path)
    return path


def _tail(text: str) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-_LOG_TAIL:])
