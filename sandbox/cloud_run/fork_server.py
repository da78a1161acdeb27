"""Starts roles by forking a process that has imported them: `python -m sandbox.cloud_run.fork_server SOCKET ROLES ...`.

ROLES is the module with `run_role`; further modules are imported as well, before the first fork. What a started role
sees is what it sees in a process of its own: its environment, its folder, its streams, its socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandbox.cloud_run.framing import receive_frame
from sandbox.cloud_run.launch import RunRole, die_with, run_instance


@dataclass(frozen=True, slots=True)
class Forked:
    """What a new process is to become."""

    role: str
    control: socket.socket


class ForkServer:
    """Forks as it is told, and reports the end of what it has forked.

    Args:
        control: orders come in and reports go out.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._numbers: dict[int, int] = {}
        self._woken, self._wake = os.pipe()

    def run(self) -> Forked | None:
        """Serves until the sandbox ends, and then returns None; in a new process, returns what it is to become."""
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        orders = self._control.fileno()
        while True:
            ready, _, _ = select.select([orders, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._report_ends()
            if orders in ready:
                try:
                    order, descriptors = receive_frame(self._control, 3)
                except (EOFError, ConnectionError):
                    return None
                if (forked := self._fork(order, descriptors)) is not None:
                    return forked

    def _fork(self, order: dict[str, Any], descriptors: list[int]) -> Forked | None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._leave()
            return _become(order, descriptors, parent)
        for descriptor in descriptors:
            os.close(descriptor)
        # Also done by the new process; whoever is first makes it true before anybody signals the group.
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        self._numbers[pid] = order["number"]
        self._report({"number": order["number"], "pid": pid})
        return None

    def _leave(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        os.close(self._woken)
        os.close(self._wake)

    def _report_ends(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._report({"number": self._numbers.pop(pid), "exit": os.waitstatus_to_exitcode(status)})

    def _report(self, row: dict[str, int]) -> None:
        # A sandbox that has ended is seen by the next read.
        with suppress(ConnectionError):
            self._control.sendall(json.dumps(row).encode() + b"\n")


def _become(order: dict[str, Any], descriptors: list[int], parent: int) -> Forked:
    with suppress(PermissionError):
        os.setpgid(0, 0)
    die_with(parent)
    control, stdout, stderr = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    os.chdir(order["folder"])
    sys.argv[1:] = [order["role"], str(control)]
    return Forked(order["role"], socket.socket(fileno=control))


def main(arguments: Sequence[str]) -> int:
    """Imports, serves, and in every new process runs its role."""
    number, roles, *others = arguments
    die_with(os.getppid())
    control = socket.socket(fileno=int(number))
    control.set_inheritable(False)
    for module in (roles, *others):
        # What cannot be imported is told by the role that needs it, in its own output.
        with suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    forked = ForkServer(control).run()
    if forked is None:
        return 0
    run_role: RunRole = importlib.import_module(roles).run_role
    return run_instance(forked.role, forked.control, run_role)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
