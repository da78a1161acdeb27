"""Reads the Avro files in which Pub/Sub keeps messages on Cloud Storage (Avro 1.11, object container files)."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.contract.errors import HoldfastError

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_LONGEST: Final = 63
"""Bits of a number, but its sign."""


class UnreadableAvro(HoldfastError):
    """A file that is no Avro file, is cut off, or has values of a kind that Pub/Sub does not write."""

    code = "unreadable_avro"


def read_records(body: bytes) -> Iterator[dict[str, Any]]:
    """The records of a file, by field name; bytes as bytes, times in their own unit since 1970.

    Raises:
        UnreadableAvro
    """
    stream = io.BytesIO(body)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise UnreadableAvro("it is no Avro file")
    header = _map(stream)
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    fields = _fields(header.get("avro.schema", b""))
    sync = _take(stream, _SYNC_BYTES)
    while stream.tell() < len(body):
        count, block = _long(stream), _bytes(stream)
        if _take(stream, _SYNC_BYTES) != sync:
            raise UnreadableAvro("a block of it does not end where it should")
        rows = io.BytesIO(_unpacked(block, codec))
        for _ in range(count):
            yield {name: _value(rows, kind) for name, kind in fields.items()}


def _fields(schema: bytes) -> Mapping[str, Any]:
    try:
        fields = {str(field["name"]): field["type"] for field in json.loads(schema)["fields"]}
    except (ValueError, KeyError, TypeError):
        fields = {}
    if not fields:
        raise UnreadableAvro("it does not say which fields its records have")
    return fields


def _unpacked(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise UnreadableAvro(f"it is packed with {codec!r}, and only deflate is read")
    try:
        return zlib.decompress(block, -zlib.MAX_WBITS)
    except zlib.error:
        raise UnreadableAvro("a packed block of it cannot be unpacked") from None


def _value(stream: io.BytesIO, kind: Any) -> Any:
    match kind:
        case "bytes":
            return _bytes(stream)
        case "string":
            return _text(stream)
        case "long" | {"type": "long"}:
            return _long(stream)
        case {"type": "map", "values": "string"}:
            return {key: value.decode(errors="replace") for key, value in _map(stream).items()}
    raise UnreadableAvro(f"it has a field of the kind {json.dumps(kind)}, which Pub/Sub does not write")


def _map(stream: io.BytesIO) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _long(stream):
        if count < 0:
            # The size of the block in bytes is beside its count then, for those who skip it.
            _long(stream)
        for _ in range(abs(count)):
            key = _text(stream)
            found[key] = _bytes(stream)
    return found


def _text(stream: io.BytesIO) -> str:
    return _bytes(stream).decode(errors="replace")


def _bytes(stream: io.BytesIO) -> bytes:
    return _take(stream, _long(stream))


def _take(stream: io.BytesIO, size: int) -> bytes:
    value = stream.read(size) if size >= 0 else b""
    if len(value) != size:
        raise UnreadableAvro("it is cut off")
    return value


def _long(stream: io.BytesIO) -> int:
    """Seven bits a byte, lowest first, then zigzag."""
    raw = 0
    for shift in range(0, _LONGEST + 1, 7):
        (byte,) = _take(stream, 1)
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1)
    raise UnreadableAvro("a number of it has no end")
