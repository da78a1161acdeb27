"""Starts a role inside the process of an instance: `python -m sandbox.cloud_run.launch ROLE SOCKET`.

The role's own code runs as in its image; only the adapters that reach Google are local ones.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final

from sandbox.cloud_run.framing import receive_frame
from sandbox.cloud_run.instance_config import InstanceConfig

RunRole = Callable[[str, InstanceConfig, socket.socket, Mapping[str, str]], int]
"""Runs a role until it ends, and returns the exit code."""

_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str] | None = None, run_role: RunRole | None = None) -> int:
    """Receives the instance's surroundings and runs the role.

    Args:
        arguments: role and number of the inherited socket; None means the command line's.
        run_role: None means the product's own roles.
    """
    role, number = sys.argv[1:] if arguments is None else arguments
    die_with(os.getppid())
    return run_instance(role, socket.socket(fileno=int(number)), run_role)


def run_instance(role: str, control: socket.socket, run_role: RunRole | None) -> int:
    """The part of `main` that follows where the process already exists and is bound to its parent's life."""
    control.set_inheritable(False)
    order, (listener,) = receive_frame(control, 1)
    environment: dict[str, str] = order["environment"]
    # The interpreter adds variables of its own (LC_CTYPE); what is declared is what the role sees.
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with, args=(control,), name="watch the sandbox", daemon=True).start()
    config = InstanceConfig.from_json(order["config"])
    sys.path[:0] = config.code_paths
    if run_role is None:
        from sandbox.wiring import run_role as product_roles

        run_role = product_roles
    return run_role(role, config, socket.socket(fileno=listener), environment)


def die_with(parent: int) -> None:
    """Has the kernel end this process when its parent ends; where the kernel cannot (macOS), the socket's end does."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _end_with(control: socket.socket) -> None:
    while True:
        try:
            if control.recv(64):
                continue
        except InterruptedError:
            continue
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
