"""What passes between a service and the process of a run: frames of JSON, each with its length in front."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from runtime.contract.limits import EVENT_BYTES, INLINE_PAYLOAD_BYTES
from runtime.execution.values import decode

LENGTH: Final = struct.Struct(">I")
FRAME_BYTES: Final = max(EVENT_BYTES, INLINE_PAYLOAD_BYTES) + 4096
"""Longest frame: a result or an event, and what is around it."""
STATUS: Final = struct.Struct(">i")
"""How a process ended, as its guard reports it: exit code, or minus the number of the signal."""

FORKED: Final = b"F"
"""Of the fork server, after an order's number: its process is there."""
REFUSED: Final = b"R"
"""The machine did not fork."""

TERMINATE: Final = b"T"
"""To a guard: SIGTERM to the process group."""
KILL: Final = b"K"
"""To a guard: SIGKILL to everything. The end of the connection means the same."""


class FrameKind(StrEnum):
    """What a frame from the process says."""

    EVENT = "event"
    """`event_type` and `payload`."""
    RESULT = "result"
    """`output`: what the function returned."""
    RAISED = "raised"
    """`error`: one line; the function, or the import of its module, raised."""
    TOO_LARGE = "too_large"
    """`bytes`: the output does not fit a record."""
    NOT_FOUND = "not_found"
    """`error`: module or function is not there."""
    FOUND = "found"
    """Both are there; the answer to a check."""


class FrameBroken(ValueError):
    """Bytes that are no frame: user code wrote to a channel that is not its own."""


class Frame(NamedTuple):
    """One frame, read."""

    kind: FrameKind
    members: Mapping[str, object]


def pack(body: bytes) -> bytes:
    """A frame of encoded JSON."""
    return LENGTH.pack(len(body)) + body


def read_length(head: bytes) -> int:
    """Length of the body that follows.

    Raises:
        FrameBroken: longer than any frame.
    """
    (length,) = LENGTH.unpack(head)
    if length > FRAME_BYTES:
        raise FrameBroken(f"a frame of {length} bytes, at most {FRAME_BYTES} are read")
    return int(length)


def read_frame(body: bytes) -> Frame:
    """The frame of a body.

    Raises:
        FrameBroken
    """
    try:
        members = decode(body)
        if not isinstance(members, dict):
            raise FrameBroken("a frame that is no object")
        return Frame(FrameKind(members["kind"]), members)
    except (ValueError, KeyError, TypeError) as error:
        raise FrameBroken("a frame that cannot be read") from error
