"""The executor's stream as it arrives: bytes in, whole messages out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.api.executor_errors import ExecutorBroken
from runtime.api.json_value import encode
from runtime.contract.limits import MIB

MESSAGE_BYTES: Final = MIB
"""Largest message: an event or a result, with room for what surrounds it."""
COMPLETED: Final = "completed"
"""Type of the last event of a run; no engine can emit it."""

_END: Final = b"\n\n"
_DATA: Final = b"\ndata: "
_TYPE: Final = b"\nevent: "


@dataclass(frozen=True, slots=True)
class Message:
    """One message of server-sent events.

    Attributes:
        raw: as it arrived, with the blank line that ends it.
        event_type: of the event; empty where the message is a comment.
        data: the event as JSON on one line; empty where the message is a comment.
    """

    raw: bytes
    event_type: str
    data: bytes


class MessageReader:
    """Takes a stream apart."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that a chunk completes.

        Raises:
            ExecutorBroken: these are no events of an executor.
        """
        *blocks, self._rest = (self._rest + chunk).split(_END)
        if len(self._rest) > MESSAGE_BYTES:
            raise ExecutorBroken(f"the executor's stream has a message of over {MESSAGE_BYTES} bytes")
        return [_message(block) for block in blocks]


def _message(block: bytes) -> Message:
    if block.startswith(b":"):
        return Message(block + _END, "", b"")
    head, data_mark, data = block.partition(_DATA)
    _, type_mark, event_type = head.partition(_TYPE)
    if not data_mark or not type_mark or not event_type.isascii() or b"\n" in data:
        raise ExecutorBroken("the executor's stream is not one of its events")
    return Message(block + _END, event_type.decode(), data)


def as_message(identity: str, event_type: str, payload: bytes, timestamp: object) -> Message:
    """An event of the API's own, in the executor's form.

    Args:
        identity: of letters, digits, `.`, `_` and `-`.
        event_type: `[a-z][a-z0-9_]{0,63}`.
        payload: encoded JSON on one line.
        timestamp: JSON value; RFC 3339 where it is the API's own.
    """
    head = f'{{"event_id":"{identity}","event_type":"{event_type}","payload":'
    data = head.encode() + payload + b',"timestamp":' + encode(timestamp) + b"}"
    return Message(f"id: {identity}\nevent: {event_type}\ndata: ".encode() + data + _END, event_type, data)
