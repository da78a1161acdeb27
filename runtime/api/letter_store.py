"""Where dead letters are: found, listed, written once, marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runtime.api.letter_record import read_letter
from runtime.api.page_cursor import TIES, Cursor, page_of
from runtime.api.run_store import CALL_SECONDS
from runtime.contract import names
from runtime.contract.dead_letter import LETTER_RETENTION, DeadLetter
from runtime.contract.limits import DEAD_LETTER_PAYLOAD_BYTES
from runtime.contract.settings.words import Workload
from runtime.contract.states import FailureClass
from runtime.ports.documents import (
    Create,
    Document,
    DocumentExists,
    Documents,
    Filter,
    Key,
    Operator,
    Query,
    Replace,
    Write,
)

COPIES: Final = 100
"""Most letters with the same data that are looked through."""
SAME_TIME: Final = timedelta(milliseconds=1)
"""Two spellings of one time of publication differ by less: one of them has milliseconds only."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A letter as read.

    Attributes:
        id: of its document.
        letter: what it says.
        document: for the next conditional write.
    """

    id: str
    letter: DeadLetter
    document: Document

    def become(self, letter: DeadLetter) -> Replace:
        """The write that makes it another letter, where nobody wrote it since."""
        kept = self.document.data.get(names.TTL_FIELD, letter.failed_at + LETTER_RETENTION)
        return Replace(self.document.key, {**letter.data(), names.TTL_FIELD: kept}, self.document.version)


@dataclass(frozen=True, slots=True)
class LetterPayload:
    """A message's data as kept beside its letter.

    Attributes:
        data: the bytes.
        encoding: `decoded`, or `as_received` where the data was not base64.
    """

    data: bytes
    encoding: str


class LetterStore:
    """Dead letters and their payloads."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def get(self, letter_id: str) -> StoredLetter | None:
        """A letter; None where there is none, or none any more."""
        document = await self._documents.get(Key(names.DEAD_LETTERS, letter_id), timeout=CALL_SECONDS)
        return None if document is None else _stored(document)

    async def payload(self, letter_id: str) -> LetterPayload | None:
        """The data beside a letter; None where it was not kept, or is gone."""
        document = await self._documents.get(Key(names.DEAD_LETTER_PAYLOADS, letter_id), timeout=CALL_SECONDS)
        data = None if document is None else document.data.get("data")
        if document is None or not isinstance(data, bytes):
            return None
        return LetterPayload(data, str(document.data.get("encoding")))

    async def find(self, letter: DeadLetter) -> StoredLetter | None:
        """The letter of the same message, whoever wrote it.

        A dead-lettered message is a new message with an id of its own, so that the id says nothing: source, data and
        time of publication do.
        """
        same_data = [Filter("payload_sha256", Operator.EQUAL, letter.payload_sha256)]
        query = Query(names.DEAD_LETTERS, same_data, limit=COPIES)
        for document in await self._documents.query(query, timeout=CALL_SECONDS):
            stored = _stored(document)
            if stored.letter.subscription == letter.subscription and _same(
                stored.letter.published_at, letter.published_at
            ):
                return stored
        return None

    async def create(self, writes: Sequence[Write]) -> bool:
        """Writes a letter where there is none; False where there is one."""
        try:
            await self._documents.commit(writes, timeout=CALL_SECONDS)
        except DocumentExists:
            return False
        return True

    async def replace(self, stored: StoredLetter, letter: DeadLetter) -> None:
        """Makes a letter another one.

        Raises:
            VersionMismatch: it was written since it was read.
        """
        await self._documents.commit([stored.become(letter)], timeout=CALL_SECONDS)

    async def page(
        self, source: Workload | None, failure_class: FailureClass | None, before: Cursor | None, limit: int
    ) -> tuple[list[StoredLetter], str | None]:
        """Letters after a cursor, newest first.

        Args:
            source: only letters of this workload; None means all.
            failure_class: only letters of this class; None means all.
            before: None begins with the newest.
            limit: most letters.

        Returns:
            The letters, and the cursor of the next page; None where this one is the last.
        """
        equal = {"source": source, "failure_class": failure_class}
        where = [Filter(name, Operator.EQUAL, word.value) for name, word in equal.items() if word is not None]
        if before is not None:
            where.append(Filter("failed_at", Operator.LESS_OR_EQUAL, before.at))
        query = Query(names.DEAD_LETTERS, where, order_by="failed_at", descending=True, limit=limit + TIES)
        found = [_stored(document) for document in await self._documents.query(query, timeout=CALL_SECONDS)]
        return page_of(found, lambda stored: Cursor(stored.letter.failed_at, stored.id), before, limit)


def creation(letter_id: str, letter: DeadLetter, data: bytes) -> list[Write]:
    """The writes of a new letter; its data is kept beside it up to DEAD_LETTER_PAYLOAD_BYTES."""
    writes: list[Write] = [Create(Key(names.DEAD_LETTERS, letter_id), letter.data())]
    if len(data) <= DEAD_LETTER_PAYLOAD_BYTES:
        kept = {"data": data, "encoding": "decoded", names.TTL_FIELD: letter.failed_at + LETTER_RETENTION}
        writes.append(Create(Key(names.DEAD_LETTER_PAYLOADS, letter_id), kept))
    return writes


def _stored(document: Document) -> StoredLetter:
    return StoredLetter(document.key.id, read_letter(document.data), document)


def _same(one: datetime | None, other: datetime | None) -> bool:
    return one is None or other is None or abs(one - other) < SAME_TIME
