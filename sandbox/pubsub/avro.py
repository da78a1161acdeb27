"""Messages as an Avro file, in the schemas that Pub/Sub writes to Cloud Storage."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandbox.pubsub.message import Message

_DATA: Final = {"name": "data", "type": "bytes"}
_METADATA: Final[list[dict[str, Any]]] = [
    {"name": "subscription_name", "type": "string"},
    {"name": "message_id", "type": "string"},
    {"name": "publish_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "attributes", "type": {"type": "map", "values": "string"}},
]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16


def record(message: Message, subscription: str, *, metadata: bool) -> bytes:
    """One message, encoded.

    Args:
        message: what was published.
        subscription: full name of the subscription that it is written for.
        metadata: True writes everything about it; False its data only.
    """
    data = _bytes(message.data)
    if not metadata:
        return data
    attributes = dict(message.attributes)
    if message.ordering_key:
        attributes["ordering_key"] = message.ordering_key
    published = _long((message.published - _EPOCH) // _MICROSECOND)
    return _text(subscription) + _text(str(message.id)) + published + _map(attributes) + data


def container(records: Iterable[bytes], *, metadata: bool) -> bytes:
    """A file of these records, all in one block without compression."""
    fields = [*_METADATA, _DATA] if metadata else [_DATA]
    schema = {"type": "record", "namespace": "com.google.pubsub", "name": "PubsubMessage", "fields": fields}
    sync = secrets.token_bytes(_SYNC_BYTES)
    header = _MAGIC + _map({"avro.schema": json.dumps(schema), "avro.codec": "null"}) + sync
    rows = list(records)
    body = b"".join(rows)
    return header + _long(len(rows)) + _long(len(body)) + body + sync


def _long(value: int) -> bytes:
    """Zigzag, then seven bits a byte, lowest first."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _text(value: str) -> bytes:
    return _bytes(value.encode())


def _map(values: Mapping[str, str]) -> bytes:
    """One block of entries, then the empty block that ends a map."""
    entries = b"".join(_text(key) + _text(value) for key, value in values.items())
    return (_long(len(values)) + entries if values else b"") + _long(0)
