"""What binds the front to the process of an instance: a socket and the pipes of its output."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandbox.cloud_run.framing import send_frame
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.pipes import Pipe


@dataclass(frozen=True, slots=True)
class Order:
    """What to start.

    Attributes:
        config: the instance's surroundings.
        environment: its exact environment; never logged.
        listener: the bound socket that it is to serve on.
        folder: its working folder.
    """

    config: InstanceConfig
    environment: Mapping[str, str] = field(repr=False)
    listener: socket.socket
    folder: Path


@dataclass(frozen=True, slots=True)
class Line:
    """Both ends of everything between the front and one process.

    Attributes:
        ours: the front's end of the socket; its closing ends the process.
        theirs: the process's end.
        stdout, stderr: its output.
    """

    ours: socket.socket
    theirs: socket.socket
    stdout: Pipe
    stderr: Pipe

    @classmethod
    async def open(cls) -> Self:
        """A new line.

        Raises:
            OSError: no descriptors are left.
        """
        stdout = await Pipe.open()
        try:
            stderr = await Pipe.open()
        except BaseException:
            stdout.close()
            raise
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        return cls(ours, theirs, stdout, stderr)

    def handed_on(self) -> None:
        """The process has its ends now."""
        self.theirs.close()
        self.stdout.handed_on()
        self.stderr.handed_on()

    async def send(self, order: Order) -> None:
        """Tells the process its surroundings, its environment and its listening socket; a dead one is no error here."""
        body = {"config": order.config.to_json(), "environment": dict(order.environment)}
        with suppress(ConnectionError):
            await send_frame(self.ours, body, [order.listener.fileno()])

    def close(self) -> None:
        """Ends the line, and with it a process that still runs."""
        self.handed_on()
        self.ours.close()
        self.stdout.close()
        self.stderr.close()
