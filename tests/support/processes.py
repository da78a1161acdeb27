"""What runs on this machine, for tests that must leave nothing behind."""

from __future__ import annotations

import subprocess


def gone(pid: int) -> bool:
    """Whether a process has ended; one that is only not yet waited for has."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip() or state.strip().startswith("Z")


def command_lines(part: str) -> list[str]:
    """Command lines of all processes that contain a text."""
    listing = subprocess.run(["ps", "-ww", "-eo", "stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(None, 1) for line in listing.splitlines())
    return [row[1] for row in rows if len(row) == 2 and part in row[1] and not row[0].startswith("Z")]
