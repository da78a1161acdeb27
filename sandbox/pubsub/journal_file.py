"""The journal's SQLite file: published messages, and who has not acknowledged them. Blocking; for one thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Final

from sandbox.pubsub.message import Message

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ROWS: Final = 500
"""Rows in one statement. Few statements matter: each gives the interpreter lock away and has to win it back."""

_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, published INTEGER NOT NULL,
    data BLOB NOT NULL, attributes TEXT NOT NULL, ordering_key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS unacknowledged (
    message_id INTEGER NOT NULL, subscription TEXT NOT NULL, attempts INTEGER NOT NULL,
    PRIMARY KEY (message_id, subscription)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A message was published; `subscriptions` have to get it. Recorded only where there is at least one."""

    message: Message
    subscriptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attempted:
    """A delivery was begun; `attempts` counts it."""

    subscription: str
    message_id: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Settled:
    """A subscription has done with a message: acknowledged, dead-lettered or too old."""

    subscription: str
    message_id: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A subscription is no longer declared; its messages go with it."""

    subscription: str


Record = Stored | Attempted | Settled | Removed


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that a subscription had not acknowledged."""

    subscription: str
    message: Message
    attempts: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a journal knows when it is opened.

    Attributes:
        waiting: in the order of publication.
        last_id: no message of this journal had a higher id; 0 where there was none.
    """

    waiting: list[Waiting] = field(default_factory=list)
    last_id: int = 0


class JournalFile:
    """One open file. Every method blocks, and belongs to the thread that opened it.

    Args:
        path: created where it is absent; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(_SCHEMA)

    def recover(self) -> Recovery:
        """Everything that is not acknowledged."""
        messages = {row[0]: _message(row) for row in self._db.execute("SELECT * FROM messages")}
        rows = self._db.execute("SELECT subscription, message_id, attempts FROM unacknowledged ORDER BY message_id")
        waiting = [Waiting(name, messages[message_id], attempts) for name, message_id, attempts in rows]
        last = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").fetchone()
        return Recovery(waiting, last[0] if last else 0)

    def apply(self, records: Iterable[Record]) -> None:
        """Writes records in one transaction, which is on disk when this returns.

        Raises:
            sqlite3.Error: nothing of it is written.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            # Between two removals the kinds may change places: a message is stored, then tried, then settled.
            for removal, group in groupby(records, key=lambda record: isinstance(record, Removed)):
                if removal:
                    self._remove([record for record in group if isinstance(record, Removed)])
                else:
                    self._apply_group(list(group))
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _apply_group(self, records: Sequence[Record]) -> None:
        stored = [record for record in records if isinstance(record, Stored)]
        self._each("INSERT INTO messages VALUES {rows}", [_row(record.message) for record in stored])
        self._each(
            "INSERT INTO unacknowledged VALUES {rows}",
            [(record.message.id, name, 0) for record in stored for name in record.subscriptions],
        )
        # The last count of each pair wins, so that one statement never meets a pair twice.
        attempts = {(r.message_id, r.subscription): r.attempts for r in records if isinstance(r, Attempted)}
        settled = [(r.message_id, r.subscription) for r in records if isinstance(r, Settled)]
        for pair in settled:
            attempts.pop(pair, None)
        self._each(
            "UPDATE unacknowledged SET attempts = new.column3 FROM (VALUES {rows}) AS new "
            "WHERE message_id = new.column1 AND subscription = new.column2",
            [(*pair, count) for pair, count in attempts.items()],
        )
        self._each("DELETE FROM unacknowledged WHERE (message_id, subscription) IN (VALUES {rows})", settled)
        self._each(
            "DELETE FROM messages WHERE id IN (VALUES {rows}) "
            "AND NOT EXISTS (SELECT 1 FROM unacknowledged WHERE message_id = messages.id)",
            [(message_id,) for message_id, _ in settled],
        )

    def _remove(self, records: Sequence[Removed]) -> None:
        for record in records:
            self._db.execute("DELETE FROM unacknowledged WHERE subscription = ?", (record.subscription,))
        self._db.execute("DELETE FROM messages WHERE id NOT IN (SELECT message_id FROM unacknowledged)")

    def _each(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        for at in range(0, len(rows), _ROWS):
            chunk = rows[at : at + _ROWS]
            places = ", ".join([f"({', '.join('?' * len(chunk[0]))})"] * len(chunk))
            self._db.execute(statement.replace("{rows}", places), [value for row in chunk for value in row])


def _row(message: Message) -> tuple[object, ...]:
    published = (message.published - _EPOCH) // _MICROSECOND
    attributes = json.dumps(dict(message.attributes), ensure_ascii=False)
    return message.id, message.topic, published, message.data, attributes, message.ordering_key


def _message(row: tuple[int, str, int, bytes, str, str]) -> Message:
    return Message(
        id=row[0],
        topic=row[1],
        published=_EPOCH + row[2] * _MICROSECOND,
        data=row[3],
        attributes=json.loads(row[4]),
        ordering_key=row[5],
    )
