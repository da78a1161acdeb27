"""Servers of a benchmark as processes on one CPU, and the CPU time that they use; the load has the other one."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.setup import VARIABLE

ROOT: Final = Path(__file__).resolve().parents[1]
START_SECONDS: Final = 60
_CPUS: Final = sorted(os.sched_getaffinity(0))
SERVER_CPU: Final = _CPUS[0]
LOAD_CPU: Final = _CPUS[-1]
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "JAVA_HOME")
"""Of this process's environment; gRPC, for one, writes a variable that our services refuse to start with."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that listens.

    Attributes:
        name: in the table.
        port: on loopback.
        pid: first process of its tree.
    """

    name: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of the process and of everything below it, from /proc."""
        return sum(_nanoseconds(pid) for pid in _tree(self.pid)) / 1e9


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], setup: Path, *, path: str = "/", env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Starts a server and waits until it answers on `path`, whatever it answers; PORT in the command is its port."""
    port = free_port()
    process = spawn(command, port, setup, env)
    try:
        _await(process, port, path, name)
        yield Server(name, port, process.pid)
    finally:
        stop(process)


def spawn(
    command: Sequence[str], port: int, setup: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a server's process on the servers' CPU; what it says is thrown away, as its errors are not."""
    environ = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environ |= {"PYTHONPATH": str(ROOT), VARIABLE: str(setup), "GOMAXPROCS": "1", **(env or {})}
    return subprocess.Popen(
        [part.replace("PORT", str(port)) for part in command],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {SERVER_CPU}),  # noqa: PLW1509 - no thread runs yet
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and what it started."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def first_answer(process: subprocess.Popen[bytes], port: int, path: str, seconds: float = START_SECONDS) -> int:
    """Status of the first answer to `GET path`, asked every 2 ms."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"a server ended with {process.returncode} before it answered")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = connection.recv(64)
            if answer.startswith(b"HTTP/1."):
                return int(answer[9:12])
        time.sleep(0.002)
    raise RuntimeError(f"a server did not answer within {seconds:g} s")


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def python(*arguments: str) -> list[str]:
    """A command of this interpreter."""
    return [sys.executable, *arguments]


def tool(name: str) -> str:
    """A command beside this interpreter."""
    return str(Path(sys.executable).parent / name)


def go_program(source: str, folder: Path) -> list[str] | None:
    """Builds one of the Go peers out of the standard library; None where there is no `go`."""
    go = shutil.which("go")
    if go is None:
        return None
    built = folder / source.removesuffix(".go")
    env = {**os.environ, "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GO111MODULE": "off"}
    subprocess.run([go, "build", "-o", str(built), source], cwd=ROOT / "bench/peers/go", env=env, check=True)
    return [str(built), "PORT"]


def _await(process: subprocess.Popen[bytes], port: int, path: str, name: str) -> None:
    try:
        first_answer(process, port, path)
    except RuntimeError as error:
        raise RuntimeError(f"{name}: {error}") from None


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _tree(int(child))


def _nanoseconds(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads)
