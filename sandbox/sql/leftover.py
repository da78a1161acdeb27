"""What a crashed run leaves in a data folder: a pid file, and perhaps a server that still runs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from runtime.ports.clock import Clock
from sandbox.sql.failure import PostgresFailed

PATIENCE: Final[tuple[tuple[signal.Signals, float], ...]] = (
    (signal.SIGINT, 10.0),
    (signal.SIGQUIT, 5.0),
    (signal.SIGKILL, 5.0),
)
"""Signals that end a server, each with its seconds: roll back and checkpoint, then just exit, then be killed."""
_POLL: Final = 0.02


def running_server(data: Path) -> int | None:
    """Process id of a server that runs on a data folder, or None; a pid file that names another process is removed.

    The caller holds the folder's lock, so that a server found here has lost its sandbox.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    if str(data) in _command_line(pid):
        return pid
    # A process id is used again after a restart of the machine, and PostgreSQL would then refuse to start.
    pid_file.unlink(missing_ok=True)
    return None


async def end_server(pid: int, clock: Clock) -> None:
    """Ends a server that is not our child, gently first.

    Raises:
        PostgresFailed: it is still there after every signal.
    """
    for number, seconds in PATIENCE:
        if not _signal(pid, number):
            return
        deadline = clock.monotonic() + seconds
        while clock.monotonic() < deadline:
            if not _signal(pid, 0):
                return
            await clock.sleep(_POLL)
    raise PostgresFailed(f"PostgreSQL of an earlier run (process {pid}) does not end; end it and start again")


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _command_line(pid: int) -> str:
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
