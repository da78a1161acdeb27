"""A real PostgreSQL process. Not covered: macOS, and users other than the present one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from sandbox.sql.failure import PostgresFailed
from sandbox.sql.postgres import Postgres
from tests.support.processes import command_lines, gone


@pytest.fixture(scope="module")
def stopped_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a fresh database, whose making is the slow part of a start."""
    folder = tmp_path_factory.mktemp("stopped")

    async def make() -> None:
        server = Postgres(folder)
        await server.start()
        await server.stop()

    asyncio.run(make())
    return folder


@pytest.fixture
def state_dir(stopped_state: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", str(stopped_state / "postgres"), str(tmp_path)], check=True)
    return tmp_path


@pytest.fixture
async def postgres(state_dir: Path) -> AsyncIterator[Postgres]:
    server = Postgres(state_dir)
    await server.start()
    yield server
    await server.stop()


async def test_it_is_reached_through_a_private_unix_socket_only(postgres: Postgres) -> None:
    connection = await asyncpg.connect(postgres.dsn, password="")
    try:
        assert await connection.fetchval("SHOW listen_addresses") == ""
        folder = Path(await connection.fetchval("SHOW unix_socket_directories"))
    finally:
        await connection.close()
    mode = (await asyncio.to_thread(folder.stat)).st_mode
    assert mode & 0o077 == 0, "another user of the machine could enter"
    assert len(str(folder / ".s.PGSQL.5432")) < 100


async def test_what_was_acknowledged_is_flushed(postgres: Postgres) -> None:
    connection = await asyncpg.connect(postgres.dsn, password="")
    try:
        settings = [await connection.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit")]
    finally:
        await connection.close()
    assert settings == ["on", "on"]


async def test_data_survives_a_stop_and_nothing_is_left_running(state_dir: Path) -> None:
    server = Postgres(state_dir)
    await server.start()
    await _write(server, 7)
    pid = server.pid
    assert pid is not None
    await server.stop()
    assert gone(pid)
    assert not command_lines(str(state_dir)), "a backend outlived its server"
    assert server.pid is None
    await server.start()
    assert await _read(server) == 7
    await server.stop()


async def test_a_killed_server_starts_again_with_its_data_although_clients_held_connections(state_dir: Path) -> None:
    server = Postgres(state_dir)
    await server.start()
    await _write(server, 8)
    held = await asyncpg.connect(server.dsn, password="")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.stop()
    await server.start()
    assert await _read(server) == 8
    held.terminate()
    await server.stop()


async def test_a_pid_file_that_names_another_process_is_no_obstacle(state_dir: Path) -> None:
    server = Postgres(state_dir)
    await server.start()
    await server.stop()
    pid_file = state_dir / "postgres" / "data" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{pid_file.parent}\n0\n5432\n/tmp\n\n0 0\nready\n")
    await server.start()
    await server.stop()


async def test_the_server_of_a_killed_sandbox_ends_and_the_next_sandbox_takes_over(state_dir: Path) -> None:
    script = (
        "import asyncio, sys, pathlib\n"
        "from sandbox.sql.postgres import Postgres\n"
        "async def main():\n"
        "    server = Postgres(pathlib.Path(sys.argv[1]))\n"
        "    await server.start()\n"
        "    print(server.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    sandbox = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(state_dir), stdout=subprocess.PIPE)
    assert sandbox.stdout is not None
    pid = int(await sandbox.stdout.readline())
    sandbox.kill()
    await sandbox.wait()
    server = Postgres(state_dir)
    await server.start()
    assert gone(pid)
    await server.stop()


async def test_a_second_sandbox_on_the_same_folder_is_refused(postgres: Postgres, state_dir: Path) -> None:
    with pytest.raises(PostgresFailed, match="in use by another sandbox"):
        await Postgres(state_dir).start()
    connection = await asyncpg.connect(postgres.dsn, password="")
    await connection.close()


async def test_data_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(PostgresFailed, match="is of PostgreSQL 12"):
        await Postgres(tmp_path).start()
    assert (data / "PG_VERSION").read_text() == "12\n"


async def test_an_interrupted_creation_is_begun_anew(tmp_path: Path) -> None:
    partial = tmp_path / "postgres" / "data.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    server = Postgres(tmp_path)
    await server.start()
    await server.stop()
    assert not partial.exists()


async def test_a_server_that_cannot_start_says_why_and_leaves_nothing(state_dir: Path) -> None:
    server = Postgres(state_dir)
    await server.start()
    await server.stop()
    (state_dir / "postgres" / "data" / "postgresql.conf").write_text("no_such_setting = on\n")
    with pytest.raises(PostgresFailed, match="no_such_setting"):
        await server.start()
    assert not command_lines(str(state_dir))


async def test_a_start_is_bounded_and_what_it_began_is_ended(tmp_path: Path) -> None:
    with pytest.raises(PostgresFailed, match=r"did not start within 0\.01 s"):
        await Postgres(tmp_path, start_timeout=0.01).start()
    assert not command_lines(str(tmp_path))


async def test_a_database_with_an_odd_name_is_created_once(state_dir: Path) -> None:
    server = Postgres(state_dir, database='odd "name" %/')
    for _ in range(2):
        await server.start()
        connection = await asyncpg.connect(server.dsn, password="")
        assert await connection.fetchval("SELECT current_database()") == 'odd "name" %/'
        await connection.close()
        await server.stop()


async def _write(server: Postgres, number: int) -> None:
    connection = await asyncpg.connect(server.dsn, password="")
    try:
        await connection.execute("CREATE TABLE kept (number int)")
        await connection.execute("INSERT INTO kept VALUES ($1)", number)
    finally:
        await connection.close()


async def _read(server: Postgres) -> object:
    connection = await asyncpg.connect(server.dsn, password="")
    try:
        return await connection.fetchval("SELECT number FROM kept")
    finally:
        await connection.close()
