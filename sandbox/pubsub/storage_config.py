"""How a subscription writes to a bucket: what its files are called, what is in them, and when one is closed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandbox.pubsub import avro
from sandbox.pubsub.message import Message

MAX_DURATION_DEFAULT: Final = "300s"
MAX_BYTES_DEFAULT: Final = 10 * 1024**3
"""Pub/Sub: where a subscription names none, a file is closed after five minutes or at its largest size, 10 GiB."""
_DATETIME_DEFAULT: Final = "YYYY-MM-DDThh:mm:ss+00:00"
_MATCHERS: Final = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "hh": "%H", "mm": "%M", "ss": "%S"}
_MATCHER: Final = re.compile("|".join(_MATCHERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """A subscription's `cloudStorageConfig`.

    Attributes:
        bucket: name of the bucket.
        prefix: in front of every file's name.
        suffix: behind it.
        datetime_format: how the moment of closing is written between them.
        max_duration: age at which a file is closed.
        max_bytes: size at which it is closed before that.
        max_messages: messages at which it is closed before that; 0 for no such limit.
        avro: True writes Avro files; False text, a line for each message.
        metadata: True writes everything about a message; Avro only.
    """

    bucket: str
    prefix: str
    suffix: str
    datetime_format: str
    max_duration: timedelta
    max_bytes: int
    max_messages: int
    avro: bool
    metadata: bool

    def object_name(self, closed: datetime) -> str:
        """Name of a file that is closed at a moment; no two are the same."""
        moment = closed.astimezone(UTC)
        written = _MATCHER.sub(lambda match: moment.strftime(_MATCHERS[match[0]]), self.datetime_format)
        return f"{self.prefix}{written}_{uuid.uuid4()}{self.suffix}"

    def encode(self, message: Message, subscription: str) -> bytes:
        """What one message adds to a file; `subscription` is the full name."""
        if not self.avro:
            return message.data + b"\n"
        return avro.record(message, subscription, metadata=self.metadata)

    def file(self, encoded: Sequence[bytes]) -> bytes:
        """A file of messages that `encode` gave."""
        return avro.container(encoded, metadata=self.metadata) if self.avro else b"".join(encoded)


def read_storage_config(
    config: Mapping[str, Any] | None, duration: Callable[[object, str], timedelta]
) -> StorageConfig | None:
    """From a subscription's inputs; None where it writes to no bucket.

    Args:
        config: `cloudStorageConfig`; what is absent has Pub/Sub's default.
        duration: (value, where) -> the duration that it spells.
    """
    if not config or not config.get("bucket"):
        return None
    form = config.get("avroConfig")
    return StorageConfig(
        bucket=str(config["bucket"]),
        prefix=str(config.get("filenamePrefix") or ""),
        suffix=str(config.get("filenameSuffix") or ""),
        datetime_format=str(config.get("filenameDatetimeFormat") or _DATETIME_DEFAULT),
        max_duration=duration(config.get("maxDuration") or MAX_DURATION_DEFAULT, "cloudStorageConfig.maxDuration"),
        max_bytes=int(config.get("maxBytes") or MAX_BYTES_DEFAULT),
        max_messages=int(config.get("maxMessages") or 0),
        avro=form is not None,
        metadata=bool(form and form.get("writeMetadata")),
    )
