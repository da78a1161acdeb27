"""Reads Avro files of Pub/Sub's two schemas, from the specification and not from what writes them."""

from __future__ import annotations

import io
import json
from typing import Any


def read_avro(body: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The schema of a file, and its records."""
    stream = io.BytesIO(body)
    assert stream.read(4) == b"Obj\x01"
    header = _map(stream)
    assert header["avro.codec"] == b"null"
    schema = json.loads(header["avro.schema"])
    sync = stream.read(16)
    records = []
    while stream.tell() < len(body):
        count, size, start = _long(stream), _long(stream), stream.tell()
        records += [{field["name"]: _value(stream, field["type"]) for field in schema["fields"]} for _ in range(count)]
        assert stream.tell() - start == size
        assert stream.read(16) == sync
    return schema, records


def _value(stream: io.BytesIO, kind: Any) -> Any:
    match kind:
        case "bytes":
            return _bytes(stream)
        case "string":
            return _bytes(stream).decode()
        case {"type": "long"}:
            return _long(stream)
        case {"type": "map", "values": "string"}:
            return {key: value.decode() for key, value in _map(stream).items()}
    raise AssertionError(f"no reader for {kind}")


def _map(stream: io.BytesIO) -> dict[str, bytes]:
    found = {}
    while count := _long(stream):
        assert count > 0
        for _ in range(count):
            key = _bytes(stream).decode()
            found[key] = _bytes(stream)
    return found


def _bytes(stream: io.BytesIO) -> bytes:
    length = _long(stream)
    value = stream.read(length)
    assert len(value) == length
    return value


def _long(stream: io.BytesIO) -> int:
    shift = result = 0
    while True:
        (byte,) = stream.read(1)
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1)
        shift += 7
