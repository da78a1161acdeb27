"""The journal keeps what it was given, together or not at all, and reads it back."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sandbox.pubsub.journal import FILE_NAME, Journal, JournalFailed
from sandbox.pubsub.journal_file import Attempted, JournalFile, Record, Recovery, Removed, Settled, Stored
from tests.support.brokers import NOW, message

A, B = "projects/p-test/subscriptions/a", "projects/p-test/subscriptions/b"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


def write(path: Path, *batches: list[Record]) -> Recovery:
    """Applies each batch in a transaction of its own, and opens the file anew."""
    file = JournalFile(path)
    for batch in batches:
        file.apply(batch)
    file.close()
    again = JournalFile(path)
    recovery = again.recover()
    again.close()
    return recovery


def waiting(recovery: Recovery) -> list[tuple[str, int, int]]:
    return [(row.subscription, row.message.id, row.attempts) for row in recovery.waiting]


def test_a_new_journal_knows_nothing(path: Path) -> None:
    assert write(path) == Recovery([], 0)


def test_a_message_is_read_back_as_it_was(path: Path) -> None:
    stored = message(
        9, "é\0", attributes={"a": "b", "é": ""}, ordering_key="k", published=NOW + timedelta(microseconds=123_456)
    )
    [row] = write(path, [Stored(stored, (A,))]).waiting
    for name in ("id", "topic", "published", "data", "attributes", "ordering_key"):
        assert getattr(row.message, name) == getattr(stored, name), name


def test_each_subscription_has_its_own_count_and_end(path: Path) -> None:
    recovery = write(
        path,
        [Stored(message(1), (A, B)), Stored(message(2), (B,))],
        [Attempted(A, 1, 1), Attempted(A, 1, 2), Attempted(B, 1, 1)],
        [Settled(B, 1)],
    )
    assert waiting(recovery) == [(A, 1, 2), (B, 2, 0)]


def test_a_message_that_everybody_has_done_with_is_gone_and_its_id_is_not_used_again(path: Path) -> None:
    recovery = write(path, [Stored(message(41), (A, B))], [Settled(A, 41)], [Settled(B, 41)])
    assert recovery == Recovery([], 41)
    file = JournalFile(path)
    assert file._db.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    file.close()


def test_one_batch_may_hold_a_whole_life(path: Path) -> None:
    recovery = write(
        path,
        [Stored(message(1), (A,)), Attempted(A, 1, 1), Stored(message(2), (B,)), Settled(A, 1), Attempted(B, 2, 1)],
    )
    assert waiting(recovery) == [(B, 2, 1)]


def test_a_removed_subscription_loses_what_it_had_and_not_what_it_gets_later(path: Path) -> None:
    recovery = write(path, [Stored(message(1), (A, B)), Removed(A), Stored(message(2), (A,))])
    assert waiting(recovery) == [(B, 1, 0), (A, 2, 0)]


def test_records_in_thousands_fit_one_transaction(path: Path) -> None:
    ids = range(1, 1802)
    recovery = write(
        path,
        [Stored(message(number), (A,)) for number in ids],
        [Attempted(A, number, 3) for number in ids],
        [Settled(A, number) for number in ids if number % 2],
    )
    assert waiting(recovery) == [(A, number, 3) for number in ids if number % 2 == 0]


def test_a_batch_that_fails_leaves_nothing_behind(path: Path) -> None:
    file = JournalFile(path)
    file.apply([Stored(message(1), (A,))])
    with pytest.raises(sqlite3.Error):
        file.apply([Settled(A, 1), Stored(message(2, topic=None), (A,))])
    assert [(row.subscription, row.message.id) for row in file.recover().waiting] == [(A, 1)]
    file.close()


def test_a_commit_reaches_the_disk_before_it_returns(path: Path) -> None:
    file = JournalFile(path)
    assert file._db.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert file._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


async def test_what_was_written_is_there_after_a_close_and_an_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert await journal.open() == Recovery([], 0)
    await journal.write(Stored(message(1), (A,)))
    journal.note(Attempted(A, 1, 1))
    await journal.close()
    again = Journal(tmp_path)
    assert waiting(await again.open()) == [(A, 1, 1)]
    await again.close()


async def test_many_writes_at_once_are_all_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await journal.open()
    await asyncio.gather(*(journal.write(Stored(message(number), (A,))) for number in range(1, 3001)))
    await journal.close()
    again = Journal(tmp_path)
    assert len((await again.open()).waiting) == 3000
    await again.close()


async def test_a_caller_that_stops_waiting_does_not_disturb_the_writer(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await journal.open()
    journal.write(Stored(message(1), (A,))).cancel()
    await journal.write(Stored(message(2), (A,)))
    await journal.close()


async def test_a_write_that_fails_says_so_to_its_caller_and_the_next_one_works(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await journal.open()
    with capture_logs() as logs, pytest.raises(JournalFailed, match="cannot be written"):
        await journal.write(Stored(message(1, topic=None), (A,)))
    assert [entry["event"] for entry in logs] == ["journal_write_failed"]
    await journal.write(Stored(message(2), (A,)))
    await journal.close()


async def test_a_file_that_is_no_journal_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database" * 100)
    journal = Journal(tmp_path)
    with pytest.raises(JournalFailed, match=FILE_NAME):
        await journal.open()
    await journal.close()


async def test_a_journal_that_was_never_opened_can_be_closed(tmp_path: Path) -> None:
    await Journal(tmp_path).close()


async def test_a_closed_journal_can_be_closed_again_and_refuses_to_write(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await journal.open()
    await journal.close()
    await journal.close()
    with pytest.raises(JournalFailed, match="not open"):
        await journal.write(Stored(message(1), (A,)))
