"""The document store that claims, runs and dead letters live in.

Small on purpose: whole-document writes, each conditional, several in one atomic commit, and a few single-collection
queries. What Firestore would refuse, every adapter refuses; time is the store's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType, Protocol

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError

Value = object
"""A stored value: None, bool, int (64 bit), float, str, bytes, aware datetime, list of values, dict of str to value."""

Version = NewType("Version", str)
"""Opaque token of one write of one document; equal tokens mean that nothing was written in between."""


class Key(Struct, frozen=True):
    """Where a document is. `collection` is the logical name; the adapter adds its configured prefix."""

    collection: str
    id: str


class Document(Struct, frozen=True):
    """A document as read.

    Attributes:
        key: where it is.
        data: a copy; changing it changes nothing in the store.
        version: for the next conditional write.
        updated_at: store time of the last write.
        read_at: store time of this read.
    """

    key: Key
    data: Mapping[str, Value]
    version: Version
    updated_at: datetime
    read_at: datetime

    @property
    def age(self) -> timedelta:
        """Time since the last write, both ends on the store's clock: no machine's own clock decides staleness."""
        return self.read_at - self.updated_at


class Create(Struct, frozen=True):
    """Writes a document that must not exist."""

    key: Key
    data: Mapping[str, Value]


class Replace(Struct, frozen=True):
    """Replaces a whole document that must still have `version`."""

    key: Key
    data: Mapping[str, Value]
    version: Version


class Delete(Struct, frozen=True):
    """Deletes a document that must still have `version`."""

    key: Key
    version: Version


Write = Create | Replace | Delete


class Operator(StrEnum):
    """Comparison of a filter."""

    EQUAL = "=="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Filter(Struct, frozen=True):
    """One condition on a top-level field."""

    field: str
    operator: Operator
    value: Value


class Query(Struct, frozen=True):
    """Documents of one collection.

    Attributes:
        collection: logical name.
        where: all must hold; at most one field may have range operators, and it must be the ordered one.
        order_by: a top-level field; documents without it are left out, as in Firestore. None orders by id.
        descending: direction of `order_by`.
        limit: 1 to 1000.
    """

    collection: str
    where: Sequence[Filter] = ()
    order_by: str | None = None
    descending: bool = False
    limit: int = 100


class StoreError(HoldfastError):
    """Root of what a document store may answer. Adapters raise nothing else, cancellation apart."""

    code = "store_error"


class DocumentExists(StoreError):
    """A Create met a document."""

    code = "document_exists"


class VersionMismatch(StoreError):
    """A Replace or Delete met another version, or no document."""

    code = "version_mismatch"


class DocumentTooLarge(StoreError):
    """A document is over Firestore's 1 MiB, or an id over 1500 bytes."""

    code = "document_too_large"


class IndexMissing(StoreError):
    """A query needs a composite index that is not declared."""

    code = "index_missing"


class StoreUnavailable(StoreError):
    """The store did not answer, or not in time.

    Attributes:
        unclear: True where a write may have been applied; the caller reads back and never assumes.
    """

    code = "store_unavailable"
    decision = Decision.RETRY

    def __init__(self, message: str, *, unclear: bool = True) -> None:
        super().__init__(message)
        self.unclear = unclear


class StoreMisconfigured(StoreError):
    """The store answers, and will go on answering no: permission, missing database, wrong database mode."""

    code = "store_misconfigured"
    decision = Decision.RETRY


class Documents(Protocol):
    """A store of documents. Every call is bounded by `timeout` seconds; no call retries an unclear write."""

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """The document, or None where there is none.

        Raises:
            StoreUnavailable, StoreMisconfigured
        """
        ...

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """Applies all writes or none, and returns their new versions in order (a Delete gives "").

        Args:
            writes: 1 to 500, no two of one document.
            timeout: seconds for the whole call.

        Raises:
            DocumentExists, VersionMismatch: a condition did not hold; nothing was written.
            DocumentTooLarge: nothing was written.
            StoreUnavailable: see its `unclear`.
            StoreMisconfigured: nothing was written.
        """
        ...

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """The documents of a query, in order.

        Raises:
            IndexMissing, StoreUnavailable, StoreMisconfigured
        """
        ...

    async def close(self) -> None:
        """Releases connections; further calls raise StoreUnavailable."""
        ...
