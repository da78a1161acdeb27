"""A W3C trace context: which trace a piece of work belongs to, in the headers that carry it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
ATTRIBUTE_TRACEPARENT: Final = TRACEPARENT
"""Attribute of a message. Google's own clients call it `googclient_traceparent`, a name that Pub/Sub reserves."""
STATE_CHARACTERS: Final = 512
"""Longest `tracestate` that is carried on; the specification asks for at least this much."""

_PARENT: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII,
)
_STATE: Final = re.compile(r"[\x20-\x7e]*", re.ASCII)
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """A span that others can be children of.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        sampled: whether the caller records its spans.
        state: `tracestate` as it came; "" for none.
    """

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    @classmethod
    def read(cls, parent: str | None, state: str | None = None) -> Self | None:
        """The context of two headers; None where there is none, or where it is not one.

        Args:
            parent: `traceparent`, from anybody: an unreadable one is no error, the trace then begins here.
            state: `tracestate`; left out where it is too long or not printable.
        """
        found = _PARENT.fullmatch(parent.strip()) if parent else None
        if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
            return None
        if not int(found["trace"], 16) or not int(found["span"], 16):
            return None
        kept = state or ""
        if len(kept) > STATE_CHARACTERS or _STATE.fullmatch(kept) is None:
            kept = ""
        return cls(found["trace"], found["span"], bool(int(found["flags"], 16) & _SAMPLED), kept)

    @property
    def parent(self) -> str:
        """`traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    def headers(self) -> dict[str, str]:
        """The headers of a request that belongs to the trace."""
        return {TRACEPARENT: self.parent, **({TRACESTATE: self.state} if self.state else {})}
