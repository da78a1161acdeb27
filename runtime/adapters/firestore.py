"""Documents in Firestore."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from grpc import StatusCode

from runtime.adapters import firestore_values as values
from runtime.adapters.document_rules import WRITE_FIELD, check_key, checked_writes
from runtime.adapters.firestore_calls import FirestoreCalls, Left
from runtime.adapters.firestore_errors import CONDITION, NOT_APPLIED, TRANSIENT, store_error
from runtime.adapters.google_messages import Message, message_class
from runtime.adapters.grpc_calls import CallFailed, ChannelClosed
from runtime.adapters.query_rules import checked_query
from runtime.ports.clock import Clock
from runtime.ports.documents import (
    Create,
    Document,
    DocumentExists,
    Key,
    Query,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
    Version,
    VersionMismatch,
    Write,
)
from runtime.ports.tokens import TokenUnavailable

T = TypeVar("T")

FIRST_DELAY: Final = 0.1
"""Upper bound of the first wait between tries, seconds; it doubles with each try."""
LONGEST_DELAY: Final = 30.0
"""Upper bound of any wait, the server's own hint included, seconds."""

_CommitRequest: Final = message_class("google.firestore.v1.CommitRequest")
_BatchGetRequest: Final = message_class("google.firestore.v1.BatchGetDocumentsRequest")
_RunQueryRequest: Final = message_class("google.firestore.v1.RunQueryRequest")


class FirestoreDocuments:
    """A document store in one Firestore database (native mode).

    Reads are tried again on passing errors; a write only where Firestore says that nothing was written. A replacing
    write carries a fresh `_write` field, which readers of this port never see: Firestore keeps the update time of a
    write that changes nothing, so without it two holders of one version could both win.

    Args:
        calls: one connection per event loop; the store takes it over, and close() closes it.
        clock: for timeouts and waits.
        prefix: put before every collection name; "" means none.
        retries: most further tries of one call; 0 means none.
        jitter: a number in 0..1 for each wait; tests fix it.
    """

    def __init__(
        self,
        calls: FirestoreCalls,
        clock: Clock,
        prefix: str = "",
        *,
        retries: int = 8,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._prefix = prefix
        self._retries = retries
        self._jitter = jitter
        self._closed = False

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """See Documents."""
        check_key(key)
        request = _BatchGetRequest(database=self._calls.database, documents=[self._name(key)])
        for item in await self._read(self._calls.batch_get, request, timeout):
            if item.WhichOneof("result") == "found":
                return values.read_document(key, item.found, item.read_time)
        return None

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """See Documents."""
        request = _CommitRequest(database=self._calls.database)
        for write, data in zip(writes, checked_writes(writes, self._prefix), strict=True):
            values.fill_write(request.writes.add(), write, self._name(write.key), data)
        deadline = self._clock.monotonic() + timeout
        try:
            response = await self._call(self._calls.commit, request, timeout, NOT_APPLIED)
        except CallFailed as error:
            if error.status is StatusCode.ALREADY_EXISTS:
                raise DocumentExists(f"one of {_names(writes)} exists") from error
            if error.status in CONDITION:
                raise await self._failed_condition(writes, error, deadline) from error
            raise store_error(error, write=True) from error
        return [values.version_of(result.update_time) for result in response.write_results]

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """See Documents. Firestore itself says which query needs an index; its emulator never does."""
        query = checked_query(query, None)
        request = _RunQueryRequest(parent=f"{self._calls.database}/documents")
        request.structured_query.CopyFrom(values.structured_query(query, self._prefix + query.collection))
        found = await self._read(self._calls.run_query, request, timeout)
        return [
            values.read_document(
                Key(query.collection, item.document.name.rsplit("/", 1)[1]), item.document, item.read_time
            )
            for item in found
            if item.HasField("document")
        ]

    async def close(self) -> None:
        """See Documents."""
        if not self._closed:
            self._closed = True
            await self._calls.close()

    async def _failed_condition(self, writes: Sequence[Write], error: CallFailed, deadline: float) -> StoreError:
        """Which document lost: a refusal that no document explains is the database's, not ours."""
        request = _BatchGetRequest(database=self._calls.database, documents=[self._name(write.key) for write in writes])
        request.mask.field_paths.append(WRITE_FIELD)
        left = deadline - self._clock.monotonic()
        versions: dict[str, Version] = {}
        for item in await self._read(self._calls.batch_get, request, left):
            if item.WhichOneof("result") == "found":
                versions[item.found.name] = values.version_of(item.found.update_time)
        for write in writes:
            version = versions.get(self._name(write.key))
            if isinstance(write, Create):
                if version is not None:
                    return DocumentExists(f"{write.key} exists")
            elif version != write.version:
                return VersionMismatch(f"{write.key} has not version {write.version} any more")
        return StoreMisconfigured(str(store_error(error, write=True)))

    async def _read(
        self, send: Callable[[Message, Left], Awaitable[list[Message]]], request: Message, timeout: float
    ) -> list[Message]:
        try:
            return await self._call(send, request, timeout, TRANSIENT)
        except CallFailed as error:
            raise store_error(error, write=False) from error

    async def _call(
        self,
        send: Callable[[Message, Left], Awaitable[T]],
        request: Message,
        timeout: float,
        again: frozenset[StatusCode],
    ) -> T:
        """Sends until an answer, within `timeout`; raises CallFailed for the caller to read."""
        if self._closed:
            raise StoreUnavailable("the store is closed", unclear=False)
        write = again is NOT_APPLIED
        sent = False
        deadline = self._clock.monotonic() + timeout

        def left() -> float:
            nonlocal sent
            sent = write  # asked right before it is sent, and not at all where it never is
            return deadline - self._clock.monotonic()

        try:
            async with self._clock.timeout(timeout):
                for tries in itertools.count():
                    try:
                        return await send(request, left)
                    except CallFailed as error:
                        delay = self._delay(tries, error)
                        past = delay >= deadline - self._clock.monotonic()
                        if past or tries >= self._retries or error.status not in again:
                            raise
                    sent = False
                    await self._clock.sleep(delay)
        except TimeoutError:
            raise StoreUnavailable(f"Firestore: no answer within {timeout} s", unclear=sent) from None
        except TokenUnavailable as error:
            raise StoreUnavailable(f"Firestore: {error}", unclear=False) from error
        except ChannelClosed:
            raise StoreUnavailable("Firestore: the channel was closed", unclear=sent) from None
        raise AssertionError("unreachable")

    def _delay(self, tries: int, error: CallFailed) -> float:
        own = self._jitter() * FIRST_DELAY * 2.0**tries
        return min(LONGEST_DELAY, max(own, error.retry_after))

    def _name(self, key: Key) -> str:
        return f"{self._calls.database}/documents/{self._prefix}{key.collection}/{key.id}"


def _names(writes: Sequence[Write]) -> str:
    return ", ".join(str(write.key) for write in writes[:3]) + (", ..." if len(writes) > 3 else "")
