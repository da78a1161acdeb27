"""The two layers of a delivery: the broker's push envelope, and the dispatch message in its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from runtime.contract import limits, names
from runtime.contract.errors import HoldfastError
from runtime.contract.strict_base64 import decode_base64
from runtime.contract.strict_json import JsonError, parse_json

MESSAGE_ID_MAX: Final = 1024
"""Longest message id, characters; the broker's own have up to 19 digits."""
DATA_ENCODED_MAX: Final = 4 * -(-limits.MESSAGE_DATA_BYTES // 3)
"""Longest data that can decode to MESSAGE_DATA_BYTES."""

Part = TypeVar("Part", str, int)


class EnvelopeError(HoldfastError):
    """A delivery that no repetition makes readable; `code` is a row of the outcomes."""

    code = "envelope_malformed"


class PushEnvelope(NamedTuple):
    """What the broker says of a message.

    Attributes:
        message_id: the broker's id, the same on every delivery.
        publish_time: as sent; informational, never parsed to decide anything. None where absent or not text.
        attributes: empty where the message has none.
        data_encoded: base64, as sent; "" where the message has no data. See `decode_data`.
        subscription: full name, as sent.
        delivery_attempt: the broker's count; None where the subscription has no dead-letter policy.
        ordering_key: "" where the message has none.
    """

    message_id: str
    publish_time: str | None
    attributes: Mapping[str, str]
    data_encoded: str
    subscription: str
    delivery_attempt: int | None
    ordering_key: str


class DispatchMessage(NamedTuple):
    """What the API says of a job.

    Attributes:
        job_id: the broker job.
        payload: the signed job, not yet verified.
    """

    job_id: str
    payload: Mapping[str, object]


def parse_push(body: bytes) -> PushEnvelope:
    """Reads a push body; the data inside stays encoded.

    Raises:
        EnvelopeError: `envelope_malformed`, `envelope_conflict` (two spellings that disagree), `missing_message_id`.
    """
    try:
        envelope = _mapping(parse_json(body), "the body")
    except JsonError as error:
        raise EnvelopeError(f"the push body is {error}") from None
    message = _mapping(envelope.get("message"), "message")
    message_id = _either(message, "messageId", "message_id", str)
    if message_id is None or not message_id.strip():
        raise EnvelopeError(
            "message has neither messageId nor message_id, or a blank one; without an id no claim can be made",
            code="missing_message_id",
        )
    if len(message_id) > MESSAGE_ID_MAX:
        raise EnvelopeError(f"messageId has {len(message_id)} characters, at most {MESSAGE_ID_MAX} are accepted")
    attempt = _either(envelope, "deliveryAttempt", "delivery_attempt", int)
    if attempt is not None and attempt < 0:
        raise EnvelopeError(f"deliveryAttempt is {attempt}, it must not be negative")
    subscription = envelope.get("subscription")
    if not isinstance(subscription, str):
        raise EnvelopeError("subscription must be a text")
    return PushEnvelope(
        message_id=message_id,
        publish_time=_publish_time(message),
        attributes=_attributes(message.get("attributes")),
        data_encoded=_text(message.get("data"), "message.data"),
        subscription=subscription,
        delivery_attempt=attempt,
        ordering_key=_either(message, "orderingKey", "ordering_key", str) or "",
    )


def decode_data(encoded: str) -> bytes:
    """The bytes of a message's data.

    Raises:
        EnvelopeError: `message_too_large`, `data_not_base64`.
    """
    decoded = b"" if len(encoded) > DATA_ENCODED_MAX else decode_base64(encoded)
    if decoded is None:
        raise EnvelopeError(
            "message.data is not standard base64 with padding; nothing of it is repaired", code="data_not_base64"
        )
    if len(encoded) > DATA_ENCODED_MAX or len(decoded) > limits.MESSAGE_DATA_BYTES:
        raise EnvelopeError(
            f"message.data decodes to more than {limits.MESSAGE_DATA_BYTES} bytes", code="message_too_large"
        )
    return decoded


def parse_dispatch(data: bytes) -> DispatchMessage:
    """Reads the decoded data of an execution message.

    Raises:
        EnvelopeError: `invalid_execution_payload`, `envelope_version_unsupported`.
    """
    try:
        message = parse_json(data)
    except JsonError as error:
        raise EnvelopeError(f"the message's data is {error}", code="invalid_execution_payload") from None
    if not isinstance(message, dict):
        raise EnvelopeError("the message's data must be an object", code="invalid_execution_payload")
    version = message.get("v")
    if type(version) is not int or version != names.MESSAGE_VERSION:
        raise EnvelopeError(
            f"the message's `v` is not {names.MESSAGE_VERSION}, the only version known here",
            code="envelope_version_unsupported",
        )
    job_id, payload = message.get("job_id"), message.get("payload")
    if not isinstance(job_id, str) or not job_id.strip() or not isinstance(payload, dict):
        raise EnvelopeError(
            "the message must have a `job_id` text and a `payload` object", code="invalid_execution_payload"
        )
    return DispatchMessage(job_id, MappingProxyType(payload))


def encode_dispatch(job_id: str, payload: Mapping[str, object]) -> bytes:
    """The data that `parse_dispatch` reads back.

    Raises:
        EnvelopeError: `invalid_execution_payload` where the payload is not JSON, `message_too_large`.
    """
    message = {"v": names.MESSAGE_VERSION, "job_id": job_id, "payload": dict(payload)}
    try:
        data = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvelopeError(
            f"job {job_id}: the payload is not JSON ({type(error).__name__})", code="invalid_execution_payload"
        ) from None
    if len(data) > limits.MESSAGE_DATA_BYTES:
        raise EnvelopeError(
            f"job {job_id}: the message has {len(data)} bytes, at most {limits.MESSAGE_DATA_BYTES} are carried",
            code="message_too_large",
        )
    return data


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise EnvelopeError(f"{name} must be an object")
    return value


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise EnvelopeError(f"{name} must be a text")
    return value


def _either(part: Mapping[str, object], camel: str, snake: str, kind: type[Part]) -> Part | None:
    """The value of a field that has two spellings; None where neither is there."""
    found: list[Part] = []
    for name in (camel, snake):
        value = part.get(name)
        if value is None:
            continue
        if type(value) is not kind:
            raise EnvelopeError(f"{name} must be of type {kind.__name__}")
        found.append(value)
    if len(found) == 2 and found[0] != found[1]:
        raise EnvelopeError(f"{camel} and {snake} differ; one message has one", code="envelope_conflict")
    return found[0] if found else None


def _publish_time(message: Mapping[str, object]) -> str | None:
    texts = {name: value for name in ("publishTime", "publish_time") if isinstance(value := message.get(name), str)}
    return _either(texts, "publishTime", "publish_time", str)


def _attributes(value: object) -> Mapping[str, str]:
    if value is None:
        return MappingProxyType({})
    attributes = _mapping(value, "message.attributes")
    texts = {name: text for name, text in attributes.items() if isinstance(text, str)}
    if len(texts) != len(attributes):
        raise EnvelopeError("every attribute must be a text")
    return MappingProxyType(texts)
