"""The messages of the thin clients are those of the locked client libraries."""

from __future__ import annotations

import pytest
from google.cloud.firestore_v1.types import firestore
from google.pubsub_v1 import types as pubsub

from checks.descriptors import FILE, descriptors
from runtime.adapters.google_messages import message_class
from runtime.adapters.grpc_calls import retry_hint


def test_the_descriptor_file_is_what_the_locked_packages_say() -> None:
    assert FILE.read_bytes() == descriptors(), "run: python checks/descriptors.py --write"


def test_a_message_reads_back_in_googles_class() -> None:
    own = message_class("google.firestore.v1.CommitRequest")(database="d")
    update = own.writes.add().update
    update.name = "one"
    update.fields["when"].timestamp_value.seconds = 7
    update.fields["list"].array_value.values.add().map_value.fields["n"].null_value = 0
    theirs = firestore.CommitRequest.deserialize(own.SerializeToString())
    assert type(own).FromString(firestore.CommitRequest.serialize(theirs)) == own
    assert theirs.writes[0].update.name == "one"
    published = message_class("google.pubsub.v1.PublishRequest")(topic="t")
    published.messages.add(data=b"x", attributes={"a": "b"})
    read = pubsub.PublishRequest.deserialize(published.SerializeToString())
    assert (read.topic, read.messages[0].data, dict(read.messages[0].attributes)) == ("t", b"x", {"a": "b"})


def test_a_message_that_is_not_in_the_file_is_an_error() -> None:
    with pytest.raises(KeyError):
        message_class("google.firestore.v1.ListenRequest")


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x1a\x02\x0a\x00"])
def test_an_unreadable_or_empty_hint_asks_for_no_wait(details: bytes) -> None:
    assert retry_hint(details) == 0.0
