"""Messages with descriptors over a unix socket: eight bytes with the length of the body, then the body as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

_HEADER: Final = struct.Struct("!Q")


async def send_frame(to: socket.socket, body: Mapping[str, object], descriptors: Sequence[int]) -> None:
    """Sends a message and copies of descriptors over a socket that does not block.

    Raises:
        OSError: nobody receives any more, or the receiver is far behind.
    """
    content = json.dumps(body).encode()
    socket.send_fds(to, [_HEADER.pack(len(content))], list(descriptors))
    await asyncio.get_running_loop().sock_sendall(to, content)


def receive_frame(source: socket.socket, most: int) -> tuple[dict[str, Any], list[int]]:
    """Waits for a message, in a process without a loop.

    Args:
        source: a socket that blocks.
        most: how many descriptors may come.

    Returns:
        The body, and the descriptors, which no other program inherits.

    Raises:
        EOFError: the sender ended first.
    """
    header, descriptors, _, _ = socket.recv_fds(source, _HEADER.size, most)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the only form of the call
    if len(header) < _HEADER.size:
        raise EOFError("the sandbox ended")
    (length,) = _HEADER.unpack(header)
    content = bytearray()
    while len(content) < length:
        part = source.recv(length - len(content))
        if not part:
            raise EOFError("the sandbox ended in the middle of a message")
        content += part
    body: dict[str, Any] = json.loads(content)
    return body, descriptors
