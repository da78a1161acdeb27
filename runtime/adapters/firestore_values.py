"""Values, documents and queries of the port in Firestore's protocol messages."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from runtime.adapters.document_rules import WRITE_FIELD
from runtime.adapters.google_messages import Message, message_class
from runtime.ports.documents import (
    Create,
    Delete,
    Document,
    Filter,
    Key,
    Operator,
    Query,
    StoreError,
    Value,
    Version,
    VersionMismatch,
    Write,
)

_Query: Final = message_class("google.firestore.v1.StructuredQuery")
_FieldFilter: Final = _Query.FieldFilter
_UnaryFilter: Final = _Query.UnaryFilter
_Composite: Final = _Query.CompositeFilter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION: Final = re.compile(r"([0-9]{1,12})\.([0-9]{6}000)")
_PLAIN_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS: Final[Mapping[Operator, int]] = {
    Operator.EQUAL: _FieldFilter.EQUAL,
    Operator.LESS: _FieldFilter.LESS_THAN,
    Operator.LESS_OR_EQUAL: _FieldFilter.LESS_THAN_OR_EQUAL,
    Operator.GREATER: _FieldFilter.GREATER_THAN,
    Operator.GREATER_OR_EQUAL: _FieldFilter.GREATER_THAN_OR_EQUAL,
}


def fill_write(message: Message, item: Write, name: str, data: Mapping[str, Value]) -> None:
    """Makes an empty write a conditional one.

    Args:
        message: of a request.
        item: the port's write.
        name: full name of its document.
        data: its data in plain types.

    Raises:
        VersionMismatch: the version is not one of Firestore.
    """
    if isinstance(item, Create):
        message.current_document.exists = False
    else:
        parts = _VERSION.fullmatch(item.version)
        if parts is None:
            raise VersionMismatch(f"{item.key} never had version {item.version!r}")
        update_time = message.current_document.update_time
        update_time.seconds, update_time.nanos = int(parts[1]), int(parts[2])
    if isinstance(item, Delete):
        message.delete = name
        return
    message.update.name = name
    fields = message.update.fields
    for field, value in data.items():
        if type(value) is str:
            fields[field].string_value = value
        else:
            _fill(fields[field], value)
    if not isinstance(item, Create):
        # A write that changes nothing keeps the update time, and then two holders of one version would both win.
        fields[WRITE_FIELD].bytes_value = os.urandom(8)


def read_document(key: Key, found: Message, read_time: Message) -> Document:
    """A document as found.

    Raises:
        StoreError: it holds a value that no adapter of this port writes.
    """
    data = {name: _plain(value, key) for name, value in found.fields.items() if name != WRITE_FIELD}
    return Document(key, data, version_of(found.update_time), moment(found.update_time), moment(read_time))


def version_of(update_time: Message) -> Version:
    """The update time of a document as its version; "" where a write gave none, as for a delete."""
    if not update_time.seconds and not update_time.nanos:
        return Version("")
    return Version(f"{update_time.seconds}.{update_time.nanos:09d}")


def moment(timestamp: Message) -> datetime:
    """A timestamp, to the microsecond."""
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)


def structured_query(asked: Query, collection: str) -> Message:
    """A checked query.

    Args:
        asked: the port's query.
        collection: its collection with the prefix.
    """
    message = _Query()
    message.from_.add().collection_id = collection
    filters = message.where.composite_filter
    for condition in asked.where:
        _fill_filter(filters.filters.add(), condition)
    if asked.where:
        filters.op = _Composite.AND
    if asked.order_by is not None:
        order = message.order_by.add()
        order.field.field_path = field_path(asked.order_by)
        order.direction = _Query.DESCENDING if asked.descending else _Query.ASCENDING
    message.limit.value = asked.limit
    return message


def field_path(name: str) -> str:
    """A top-level field as path; without quotes a dot would lead into a map."""
    if _PLAIN_FIELD.fullmatch(name):
        return name
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _fill_filter(target: Message, condition: Filter) -> None:
    value = condition.value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        target.unary_filter.field.field_path = field_path(condition.field)
        target.unary_filter.op = _UnaryFilter.IS_NULL if value is None else _UnaryFilter.IS_NAN
        return
    target.field_filter.field.field_path = field_path(condition.field)
    target.field_filter.op = _OPERATORS[condition.operator]
    _fill(target.field_filter.value, value)


def _fill(target: Message, value: Value) -> None:
    match value:
        case str():  # first, as most values are
            target.string_value = value
        case None:
            target.null_value = 0
        case bool():
            target.boolean_value = value
        case int():
            target.integer_value = value
        case float():
            target.double_value = value
        case bytes():
            target.bytes_value = value
        case datetime():
            since = value - _EPOCH
            target.timestamp_value.seconds = since.days * 86400 + since.seconds
            target.timestamp_value.nanos = since.microseconds * 1000
        case list():
            target.array_value.SetInParent()
            for item in value:
                _fill(target.array_value.values.add(), item)
        case dict():
            target.map_value.SetInParent()
            for name, item in value.items():
                _fill(target.map_value.fields[name], item)


def _plain(value: Message, key: Key) -> Value:
    kind = value.WhichOneof("value_type")
    match kind:
        case "null_value":
            return None
        case "timestamp_value":
            return moment(value.timestamp_value)
        case "array_value":
            return [_plain(item, key) for item in value.array_value.values]
        case "map_value":
            return {name: _plain(item, key) for name, item in value.map_value.fields.items()}
        case "boolean_value" | "integer_value" | "double_value" | "string_value" | "bytes_value":
            plain: Value = getattr(value, kind)
            return plain
    raise StoreError(f"{key} holds a {kind}, which only another program can have written", code="invalid_document")
