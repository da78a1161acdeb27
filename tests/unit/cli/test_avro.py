"""Files of dead letters, as a person reads them. Whether Google packs its own is not known here: both are read."""

from __future__ import annotations

import contextlib
import json
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.avro import UnreadableAvro, read_records
from cli.failure import CommandFailed
from cli.main import app
from sandbox.pubsub.avro import container, record
from sandbox.pubsub.message import Message
from tests.support.avro_files import read_avro

SUBSCRIPTION = "projects/p-test/subscriptions/sink"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LETTER = Message(
    id=7,
    topic="projects/p-test/topics/dead",
    published=EPOCH + timedelta(days=1),
    data=b"{}",
    attributes={"kind": "execution"},
    ordering_key="",
)
messages = st.builds(
    Message,
    id=st.integers(1, 2**63 - 1),
    topic=st.just("projects/p-test/topics/dead"),
    published=st.integers(0, 4 * 10**15).map(lambda micros: EPOCH + timedelta(microseconds=micros)),
    data=st.binary(max_size=300),
    attributes=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    ordering_key=st.just(""),
)


def file_of(*letters: Message) -> bytes:
    return container([record(one, SUBSCRIPTION, metadata=True) for one in letters], metadata=True)


def packed(body: bytes, codec: bytes = b"deflate") -> bytes:
    """The same file, with its one block in another codec."""
    sync = body[-16:]
    header, _, block = body[:-16].partition(sync)
    size = len(record(LETTER, SUBSCRIPTION, metadata=True))
    rows = block[-size:]
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    small = compressor.compress(rows) + compressor.flush()
    assert len(small) < 0x2000
    count, length = bytes([2]), len(small) << 1
    header = header.replace(b"\x08null", bytes([len(codec) << 1]) + codec)
    return header + sync + count + bytes([length & 0x7F | 0x80, length >> 7]) + small + sync


def read(*words: str) -> Any:
    return CliRunner().invoke(app, ["dead-letters", "read", *words])


@settings(max_examples=25)
@given(st.lists(messages, min_size=1, max_size=4))
def test_what_pubsub_writes_is_read_as_another_reader_reads_it(written: list[Message]) -> None:
    body = file_of(*written)
    assert list(read_records(body)) == read_avro(body)[1]


def test_a_packed_file_is_read_and_one_that_is_packed_otherwise_says_how() -> None:
    assert list(read_records(packed(file_of(LETTER)))) == list(read_records(file_of(LETTER)))
    with pytest.raises(UnreadableAvro, match="packed with 'snappy'"):
        list(read_records(packed(file_of(LETTER), b"snappy")))


@settings(max_examples=100)
@given(st.data())
def test_a_file_that_is_not_whole_is_refused_and_never_ends_the_command(data: st.DataObject) -> None:
    body = file_of(LETTER)
    spoiled = bytearray(body[: data.draw(st.integers(0, len(body) - 1))])
    if spoiled:
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= data.draw(st.integers(0, 255))
    with contextlib.suppress(UnreadableAvro):
        list(read_records(bytes(spoiled)))


def test_a_line_for_each_message_says_everything_but_its_data(tmp_path: Path) -> None:
    file = tmp_path / "letter.avro"
    file.write_bytes(file_of(LETTER))

    done = read(str(file), "--payload", str(tmp_path / "bytes"))

    assert done.exit_code == 0
    assert json.loads(done.output) == {
        "subscription_name": SUBSCRIPTION,
        "message_id": "7",
        "publish_time": "1970-01-02T00:00:00+00:00",
        "attributes": {"kind": "execution"},
        "bytes": 2,
    }
    kept = tmp_path / "bytes" / "7"
    assert kept.read_bytes() == b"{}"
    assert kept.stat().st_mode & 0o077 == 0, "a message holds the token of its job"


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "letter.avro"
    file.write_text("no")
    for path, why in ((file, "it is no Avro file"), (tmp_path / "gone", "No such file")):
        failed = read(str(path)).exception
        assert isinstance(failed, CommandFailed)
        assert str(failed).startswith(f"{path}: ")
        assert why in str(failed)
