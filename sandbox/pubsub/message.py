"""A published message, and what the broker refuses to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from runtime.contract.errors import HoldfastError

REQUEST_BYTES: Final = 10_000_000
"""Pub/Sub: largest publish request, and so largest message; the service's own refusals name this number."""
REQUEST_MESSAGES: Final = 1000
"""Pub/Sub: most messages in one publish request."""
ATTRIBUTES: Final = 100
"""Pub/Sub: most attributes of a message."""
ATTRIBUTE_KEY_BYTES: Final = 256
ATTRIBUTE_VALUE_BYTES: Final = 1024
ORDERING_KEY_BYTES: Final = 1024
RESERVED_PREFIX: Final = "goog"
"""Pub/Sub: start of attribute keys that publishers may not use."""


class InvalidMessage(HoldfastError):
    """A message that Pub/Sub refuses to publish."""

    code = "invalid_message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message before it has an id.

    Attributes:
        data: body; may be empty where there are attributes.
        attributes: string to string.
        ordering_key: messages with one key are delivered in order where the subscription asks for it; "" for none.
    """

    data: bytes = field(default=b"", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """A published message.

    Attributes:
        id: decimal digits; unique in a topic for ever, rising in the order of publication.
        topic: full name.
        published: when the broker took it.
        data, attributes, ordering_key: see Draft.
    """

    id: int
    topic: str
    published: datetime
    data: bytes = field(repr=False)
    attributes: Mapping[str, str]
    ordering_key: str


def check_drafts(drafts: Iterable[Draft]) -> None:
    """Refuses what Pub/Sub refuses.

    Raises:
        InvalidMessage: an empty request or message, or one over a limit; names the limit.
    """
    count = size = 0
    for draft in drafts:
        count += 1
        size += len(draft.data) + _check_draft(draft)
    if count == 0:
        raise InvalidMessage("the request has no message; publish 1 or more")
    _at_most("message_count", count, REQUEST_MESSAGES)
    _at_most("request_size", size, REQUEST_BYTES)


def _check_draft(draft: Draft) -> int:
    if not draft.data and not draft.attributes:
        raise InvalidMessage("a message has neither data nor attributes; give it one of them")
    _at_most("attribute_count", len(draft.attributes), ATTRIBUTES)
    size = len(draft.ordering_key.encode())
    _at_most("ordering_key_size", size, ORDERING_KEY_BYTES)
    for key, value in draft.attributes.items():
        key_bytes, value_bytes = len(key.encode()), len(value.encode())
        if not key or key.startswith(RESERVED_PREFIX):
            raise InvalidMessage(f"attribute key {key!r} is empty or starts with {RESERVED_PREFIX!r}; use another key")
        _at_most(f"size of attribute key {key[:40]!r}", key_bytes, ATTRIBUTE_KEY_BYTES)
        _at_most(f"size of the value of attribute {key!r}", value_bytes, ATTRIBUTE_VALUE_BYTES)
        size += key_bytes + value_bytes
    return size


def _at_most(name: str, value: int, maximum: int) -> None:
    if value > maximum:
        raise InvalidMessage(f"{name} is {value}; the maximum is {maximum}")
