"""The small process that forks one guard per run: `python -m runtime.execution.process.forkserver FD`.

It is started before the service has threads or connections, with an environment and file descriptors of its own, so
that nothing of the service is in what it forks. It never starts a thread and never imports user code.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - imported once here, so that no run has to: user code may be asynchronous
import gc
import os
import signal
import socket
import sys
from typing import Final

from runtime.execution.process import child, guard
from runtime.execution.process.frames import FORKED, REFUSED

DESCRIPTORS: Final = 5
"""What comes with an order: the guard's connection, the job, the frames, stdout, stderr."""


def main() -> None:
    """Serves orders until the service is gone."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps guards; each reports to the service itself
    gc.collect()
    gc.freeze()  # what is here stays shared between all forks
    while True:
        try:
            order, descriptors, _, _ = socket.recv_fds(orders, 1, DESCRIPTORS)
        except ConnectionError:
            return
        if not order:
            return
        answer = _fork(orders, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            orders.sendall(order + answer)
        except ConnectionError:
            return


def _fork(orders: socket.socket, descriptors: list[int]) -> bytes:
    if len(descriptors) != DESCRIPTORS:
        return REFUSED
    try:
        pid = os.fork()
    except OSError:
        return REFUSED
    if pid == 0:
        orders.close()
        guard.main(descriptors[0], child.Descriptors(*descriptors[1:]))
    return FORKED


if __name__ == "__main__":
    main()
