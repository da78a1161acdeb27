"""Stands over one run's process: passes signals on, leaves no descendant behind, and reports the end last."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from runtime.execution.process import child
from runtime.execution.process.frames import STATUS, TERMINATE
from runtime.execution.process.prctl import adopt_orphans


def main(connection: int, descriptors: child.Descriptors) -> NoReturn:
    """The life of a guard, in a process that was just forked. The status is sent when everything is gone, and the
    guard itself goes when the service has it.
    """
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        adopt_orphans()
        service = socket.socket(fileno=connection)
        scratch = tempfile.mkdtemp(prefix="holdfast-job-")
        try:
            status = _stand_over(service, descriptors, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        service.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))
        # Closing with an order unread would take the status away from the service again.
        while _order(service):
            pass
        code = 0
    except BrokenPipeError:
        pass  # the service is gone
    except BaseException:  # noqa: BLE001 - nothing is above this to see it; stderr is the service's
        traceback.print_exc()
    finally:
        os._exit(code)


def _stand_over(service: socket.socket, descriptors: child.Descriptors, scratch: str) -> int:
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        child.main(descriptors, guard, scratch)
    _own_group(pid)
    for descriptor in descriptors:
        os.close(descriptor)
    try:
        return _until_gone(service, woken, pid)
    finally:
        _sweep()


def _own_group(pid: int) -> None:
    # Both sides set it, so that a signal to the group finds it from the first moment on.
    try:
        os.setpgid(pid, pid)
    except (ProcessLookupError, PermissionError):
        return


def _until_gone(service: socket.socket, woken: int, pid: int) -> int:
    poll = select.poll()
    poll.register(service, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 4096)
        if service.fileno() in ready:
            order = _order(service)
            _signal_group(pid, signal.SIGTERM if order == TERMINATE else signal.SIGKILL)
            if not order:
                poll.unregister(service)  # the service is gone; its end is reported only once
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            # Not reaped yet, so that its group's number cannot belong to anybody else.
            _signal_group(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1]


def _order(service: socket.socket) -> bytes:
    try:
        return service.recv(1)
    except ConnectionError:
        return b""


def _signal_group(pid: int, number: signal.Signals) -> None:
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _sweep() -> None:
    """Kills what left the group. Whatever still lives has been adopted, or has an ancestor that was."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue  # gone meanwhile
            # The name of the program is in brackets and may hold anything; the parent is the second field after it.
            if int(stat.rpartition(b")")[2].split()[1]) == own:
                yield int(entry.name)
