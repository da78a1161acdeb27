"""Files in the two schemas that Pub/Sub writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.pubsub.avro import container, record
from sandbox.pubsub.message import Message
from tests.support.avro_files import read_avro

SUBSCRIPTION = "projects/p-test/subscriptions/sink"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

texts = st.text(st.characters(codec="utf-8"), max_size=80)
messages = st.builds(
    Message,
    id=st.integers(1, 2**63 - 1),
    topic=st.just("projects/p-test/topics/dead"),
    published=st.integers(0, 4 * 10**15).map(lambda micros: EPOCH + timedelta(microseconds=micros)),
    data=st.binary(max_size=300),
    attributes=st.dictionaries(texts.filter(lambda key: key != "ordering_key"), texts, max_size=4),
    ordering_key=texts,
)


@settings(max_examples=25)
@given(st.lists(messages, min_size=1, max_size=4))
def test_what_is_written_with_metadata_is_the_whole_message(written: list[Message]) -> None:
    body = container([record(one, SUBSCRIPTION, metadata=True) for one in written], metadata=True)
    schema, records = read_avro(body)

    assert (schema["namespace"], schema["name"]) == ("com.google.pubsub", "PubsubMessage")
    for one, read in zip(written, records, strict=True):
        ordering = {"ordering_key": one.ordering_key} if one.ordering_key else {}
        assert read == {
            "subscription_name": SUBSCRIPTION,
            "message_id": str(one.id),
            "publish_time": (one.published - EPOCH) // timedelta(microseconds=1),
            "attributes": {**one.attributes, **ordering},
            "data": one.data,
        }


@settings(max_examples=25)
@given(st.lists(messages, min_size=1, max_size=4))
def test_without_metadata_only_the_data_is_written(written: list[Message]) -> None:
    body = container([record(one, SUBSCRIPTION, metadata=False) for one in written], metadata=False)
    assert read_avro(body)[1] == [{"data": one.data} for one in written]
