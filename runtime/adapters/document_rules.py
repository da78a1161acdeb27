"""What Firestore would refuse, refused by every adapter before anything is sent.

Limits and formulas are those of Firestore's documentation, "Usage and limits" and "Storage size calculations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.adapters.plain_values import RESERVED, plain_fields, text_bytes
from runtime.contract.limits import COMMIT_WRITES, DOCUMENT_BYTES, DOCUMENT_ID_BYTES, MIB
from runtime.ports.documents import Delete, DocumentTooLarge, Key, StoreError, Value, Write

WRITE_FIELD: Final = "_write"
"""Top-level field that adapters keep for themselves; see FirestoreDocuments."""

COMMIT_BYTES: Final = 10 * MIB
"""Firestore's limit for one request."""

_DOCUMENT_OVERHEAD: Final = 32
_NAME_OVERHEAD: Final = 16
_WRITE_FIELD_BYTES: Final = len(WRITE_FIELD) + 1 + 8
"""Counted for every document, so that each adapter has the same limit."""


def check_key(key: Key) -> None:
    """Refuses ids that Firestore does not take, and NUL, which PostgreSQL does not take.

    Raises:
        DocumentTooLarge: an id is over 1500 bytes.
        StoreError: `invalid_key`.
    """
    for what, name in (("collection", key.collection), ("document id", key.id)):
        size = text_bytes(name)
        if not size or "/" in name or "\0" in name or name in {".", ".."} or RESERVED.fullmatch(name):
            raise StoreError(
                f"{what} {name[:80]!r} is refused: Unicode, not empty, no '/', no NUL, not '.', '..' or '__x__'",
                code="invalid_key",
            )
        if size > DOCUMENT_ID_BYTES:
            raise DocumentTooLarge(f"{what} {name[:80]!r}... has {size} bytes, the limit is {DOCUMENT_ID_BYTES}")


def checked_writes(writes: Sequence[Write], prefix: str) -> list[dict[str, Value]]:
    """The data of each write: a deep copy in plain types, checked; empty for a Delete.

    Args:
        writes: what is to be written in one commit.
        prefix: of the collections; it counts towards a document's size.

    Raises:
        DocumentTooLarge: a document is over 1 MiB, a field over 1 MiB less 89 bytes, the commit over 10 MiB.
        StoreError: `invalid_commit`: no writes, more than 500, or two of one document; `invalid_document`: a type,
            name, depth or nesting that Firestore refuses; also what check_key raises.
    """
    if not 1 <= len(writes) <= COMMIT_WRITES:
        raise StoreError(f"a commit takes 1 to {COMMIT_WRITES} writes, not {len(writes)}", code="invalid_commit")
    seen: set[Key] = set()
    for write in writes:
        check_key(write.key)
        if write.key in seen:
            raise StoreError(f"a commit writes {write.key} twice; merge the two writes", code="invalid_commit")
        seen.add(write.key)
    documents = [_document(write, prefix) for write in writes]
    total = sum(size for _, size in documents)
    if total > COMMIT_BYTES:
        raise DocumentTooLarge(f"a commit of {total} bytes, the limit is {COMMIT_BYTES}; commit in several steps")
    return [data for data, _ in documents]


def _document(write: Write, prefix: str) -> tuple[dict[str, Value], int]:
    if isinstance(write, Delete):
        return {}, 0
    if WRITE_FIELD in write.data:
        raise StoreError(f"{write.key}: the field {WRITE_FIELD!r} is kept for the store", code="invalid_document")
    data, size = plain_fields(write.data, str(write.key))
    names = len((prefix + write.key.collection).encode()) + len(write.key.id.encode()) + 2
    size += names + _NAME_OVERHEAD + _DOCUMENT_OVERHEAD + _WRITE_FIELD_BYTES
    if size > DOCUMENT_BYTES:
        raise DocumentTooLarge(f"{write.key} has {size} bytes, the limit is {DOCUMENT_BYTES}; keep the bulk elsewhere")
    return data, size
