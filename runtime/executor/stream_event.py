"""One event as readers of a stream get it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from runtime.ports.clock import Clock

_MILLISECOND: Final = timedelta(milliseconds=1)
_new: Final = tuple.__new__  # the constructor of a named tuple is a function in Python around it


class StreamEvent(NamedTuple):
    """One event.

    Attributes:
        position: in its stream, from 1.
        stream: name of the stream, of letters and digits.
        event_type: matches EVENT_TYPE.
        data: the whole event as JSON on one line: the encoder writes CR, LF and NUL inside of texts as escapes.
    """

    position: int
    stream: str
    event_type: str
    data: bytes

    @property
    def id(self) -> str:
        """Of letters, digits and `-`."""
        return f"{self.stream}-{self.position}"

    def sse(self) -> bytes:
        """The event as a message of server-sent events."""
        head = f"id: {self.stream}-{self.position}\nevent: {self.event_type}\ndata: "
        return b"%b%b\n\n" % (head.encode(), self.data)


def stream_event(position: int, stream: str, event_type: str, payload: bytes, timestamp: str) -> StreamEvent:
    """An event of parts; every part but the encoded payload is of a fixed alphabet."""
    head = f'{{"event_id":"{stream}-{position}","event_type":"{event_type}","payload":'
    data = b'%b%b,"timestamp":"%b"}' % (head.encode(), payload, timestamp.encode())
    return _new(StreamEvent, (position, stream, event_type, data))


def ndjson(events: Sequence[StreamEvent]) -> bytes:
    """Events as lines of NDJSON."""
    return b"\n".join([*[event.data for event in events], b""])


def sse(events: Sequence[StreamEvent]) -> bytes:
    """Events as messages of server-sent events."""
    return b"".join([event.sse() for event in events])


def rfc3339(moment: datetime) -> str:
    """A UTC time to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Stamps:
    """The time as RFC 3339, written once for each millisecond.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = self._end = datetime.min.replace(tzinfo=UTC)
        self._text = ""

    def now(self) -> str:
        """See `rfc3339`."""
        moment = self._clock.now()
        if not self._begin <= moment < self._end:
            self._begin = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
            self._end = self._begin + _MILLISECOND
            self._text = rfc3339(moment)
        return self._text
