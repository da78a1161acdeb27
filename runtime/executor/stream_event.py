"""Events as readers of a stream get them: each on one line, since the encoder of payloads writes CR, LF and NUL inside
of texts as escapes, and everything else is of a fixed alphabet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from runtime.execution.event import Emitted, GatheredEvents, Stretches

OVERHEAD: Final = 128
"""About the bytes that a line adds to its payload."""
SSE_OVERHEAD: Final = 192
"""The same of a message of server-sent events."""

_LINE: Final = '{{"event_id":"{stream}-%d","event_type":"{event_type}","payload":%b,"timestamp":"{timestamp}"}}\n'
_MESSAGE: Final = f"id: {{stream}}-%d\nevent: {{event_type}}\ndata: {_LINE}\n"
_MESSAGE_LINES: Final = _MESSAGE.count("\n")
_TAIL: Final = b'"event_type":'
_WRITTEN: Final = re.compile(
    rb'^(?:data: )?\{"event_id":"[^"]*-(\d+)","event_type":"(\w+)","payload":(.*),"timestamp":"([^"]*)"\}$',
    re.MULTILINE,
)


def ndjson(stream: str, events: Sequence[Emitted]) -> bytes:
    """Events as lines of NDJSON. What differs from event to event is formatted for each, the rest once for a stretch.

    Args:
        stream: its name, of letters and digits; an id is this, `-` and the position.
        events: in order.
    """
    lines: list[bytes] = []
    for first, event_type, timestamp, payloads in Stretches.of(events).stretches:
        line = _LINE.format(stream=stream, event_type=event_type, timestamp=timestamp).encode()
        if len(payloads) == 1:  # the reader of an event that comes alone waits for this
            lines.append(line % (first, payloads[0]))
        else:
            lines += [line % numbered for numbered in zip(range(first, first + len(payloads)), payloads, strict=True)]
    return b"".join(lines)


def sse(stream: str, events: Sequence[Emitted]) -> bytes:
    """Events as messages of server-sent events; see `ndjson`."""
    messages: list[bytes] = []
    for first, event_type, timestamp, payloads in Stretches.of(events).stretches:
        message = _MESSAGE.format(stream=stream, event_type=event_type, timestamp=timestamp).encode()
        numbers = range(first, first + len(payloads))
        messages += [message % numbered for numbered in zip(numbers, numbers, payloads, strict=True)]
    return b"".join(messages)


class Written(GatheredEvents):
    """Events as they were written, which nobody has to hold one by one while they wait to be reported.

    Args:
        data: what `ndjson` or `sse` wrote.
        count: how many events it holds.
    """

    __slots__ = ("_count", "_data")

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Emitted]:
        return iter(read_back(self._data))

    def tails(self) -> Iterator[bytes]:
        """See GatheredEvents: both forms end as a report does."""
        lines = self._data.split(b"\n")
        objects = lines[2::_MESSAGE_LINES] if self._data.startswith(b"id: ") else lines[:-1]
        return (line[line.index(_TAIL) :] for line in objects)


def read_back(written: bytes) -> list[Emitted]:
    """The events of what `ndjson` or `sse` wrote."""
    return [
        (int(position), event_type.decode(), payload, timestamp.decode())
        for position, event_type, payload, timestamp in _WRITTEN.findall(written)
    ]
