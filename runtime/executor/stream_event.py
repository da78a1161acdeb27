"""One event as readers of a stream get it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, eq=False)
class StreamEvent:
    """One event.

    Attributes:
        position: in its stream, from 1.
        id: of letters, digits and `-`.
        event_type: matches EVENT_TYPE.
        data: the whole event as JSON on one line: the encoder writes CR, LF and NUL inside of texts as escapes.
    """

    position: int
    id: str
    event_type: str
    data: bytes

    def ndjson(self) -> bytes:
        """The event as a line of NDJSON."""
        return self.data + b"\n"

    def sse(self) -> bytes:
        """The event as a message of server-sent events."""
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id.encode(), self.event_type.encode(), self.data)


def stream_event(position: int, identity: str, event_type: str, payload: bytes, timestamp: str) -> StreamEvent:
    """An event of parts; every part but the encoded payload is of a fixed alphabet."""
    head = f'{{"event_id":"{identity}","event_type":"{event_type}","payload":'
    data = b'%b%b,"timestamp":"%b"}' % (head.encode(), payload, timestamp.encode())
    return StreamEvent(position, identity, event_type, data)


def rfc3339(moment: datetime) -> str:
    """A UTC time to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
