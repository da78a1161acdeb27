"""What must survive a crash, written by one thread; whatever waits together is committed together."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import structlog

from runtime.contract.errors import Decision, HoldfastError
from sandbox.pubsub.journal_file import JournalFile, Record, Recovery

FILE_NAME: Final = "pubsub.sqlite3"
_BATCH: Final = 2000
"""Most entries in one transaction."""

log = structlog.get_logger()


class JournalFailed(HoldfastError):
    """The journal could not be opened or written; what was to be stored is not."""

    code = "journal_failed"
    decision = Decision.RETRY


@dataclass(frozen=True, slots=True)
class _Entry:
    records: tuple[Record, ...]
    durable: asyncio.Future[None] | None


class Journal:
    """An append-only side of the broker's state.

    Args:
        folder: where the file is; created, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue: SimpleQueue[_Entry | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed: asyncio.Future[None] | None = None
        self._closing = False

    async def open(self) -> Recovery:
        """Opens the file and starts the writer.

        Raises:
            JournalFailed
        """
        loop = asyncio.get_running_loop()
        recovered: asyncio.Future[Recovery] = loop.create_future()
        self._closed = loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(loop, recovered, self._closed), name="pubsub-journal", daemon=True
        )
        self._thread.start()
        return await recovered

    def note(self, *records: Record) -> None:
        """Writes records soon. A failure is logged: what is lost is a count or a settlement, hence a redelivery."""
        self._queue.put(_Entry(records, None))

    def write(self, *records: Record) -> asyncio.Future[None]:
        """Writes records in one transaction; the future is done when they are on disk, or raises JournalFailed.

        Raises:
            JournalFailed: the journal is not open; nobody would ever write the records.
        """
        if self._closed is None or self._closing:
            raise JournalFailed("the journal is not open; start the service")
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put(_Entry(records, durable))
        return durable

    async def close(self) -> None:
        """Writes what waits, then ends the writer; safe where `open` failed or never ran."""
        if self._closed is None:
            return
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._closed)

    def _run(
        self, loop: asyncio.AbstractEventLoop, recovered: asyncio.Future[Recovery], closed: asyncio.Future[None]
    ) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = JournalFile(self._folder / FILE_NAME)
            recovery = file.recover()
        except (sqlite3.Error, OSError) as error:
            failure = JournalFailed(f"journal {self._folder / FILE_NAME} cannot be opened: {error}")
            loop.call_soon_threadsafe(_fail, recovered, failure)
            loop.call_soon_threadsafe(_done, closed)
            return
        loop.call_soon_threadsafe(_give, recovered, recovery)
        while (batch := self._next_batch()) is not None:
            failed: JournalFailed | None = None
            try:
                file.apply(record for entry in batch for record in entry.records)
            except (sqlite3.Error, OSError) as error:
                failed = JournalFailed(f"journal cannot be written: {error}; free disk space and publish again")
            loop.call_soon_threadsafe(_settle, batch, failed)
        file.close()
        loop.call_soon_threadsafe(_done, closed)

    def _next_batch(self) -> list[_Entry] | None:
        """What waits now, at least one entry; None at the end."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < _BATCH:
            try:
                entry = self._queue.get_nowait()
            except Empty:
                break
            if entry is None:
                self._queue.put(None)
                break
            batch.append(entry)
        return batch


def _settle(batch: list[_Entry], failed: JournalFailed | None) -> None:
    if failed is not None:
        log.error("journal_write_failed", entries=len(batch), reason=failed.line())
    for entry in batch:
        if entry.durable is None or entry.durable.done():
            continue
        if failed is None:
            entry.durable.set_result(None)
        else:
            entry.durable.set_exception(failed)


def _give(recovered: asyncio.Future[Recovery], recovery: Recovery) -> None:
    if not recovered.done():
        recovered.set_result(recovery)


def _fail(recovered: asyncio.Future[Recovery], failure: JournalFailed) -> None:
    if not recovered.done():
        recovered.set_exception(failure)


def _done(closed: asyncio.Future[None]) -> None:
    if not closed.done():
        closed.set_result(None)
