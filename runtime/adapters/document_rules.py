"""What Firestore would refuse, refused by every adapter before anything is sent.

Limits and formulas are those of Firestore's documentation, "Usage and limits" and "Storage size calculations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.adapters.plain_values import RESERVED, plain_fields, text_bytes
from runtime.contract.limits import COMMIT_WRITES, DOCUMENT_BYTES, DOCUMENT_ID_BYTES
from runtime.ports.documents import Delete, DocumentTooLarge, Key, StoreError, Value, Write

WRITE_FIELD: Final = "_write"
"""Top-level field that adapters keep for themselves; see FirestoreDocuments."""

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


def check_writes(writes: Sequence[Write]) -> None:
    """Refuses a commit of no writes, of more than 500, or with two writes of one document.

    Raises:
        StoreError: `invalid_commit`; also what check_key raises.
    """
    if not 1 <= len(writes) <= COMMIT_WRITES:
        raise StoreError(f"a commit takes 1 to {COMMIT_WRITES} writes, not {len(writes)}", code="invalid_commit")
    seen: set[Key] = set()
    for write in writes:
        check_key(write.key)
        if write.key in seen:
            raise StoreError(f"a commit writes {write.key} twice; merge the two writes", code="invalid_commit")
        seen.add(write.key)


def stored_data(write: Write, prefix: str) -> dict[str, Value]:
    """A deep copy of a write's data in plain types, checked; empty for a Delete.

    Args:
        write: what is to be written.
        prefix: of the collection; it counts towards the document's size.

    Raises:
        DocumentTooLarge: over Firestore's 1 MiB, or one field over 1 MiB less 89 bytes.
        StoreError: `invalid_document`: a type, name, depth or nesting that Firestore refuses.
    """
    if isinstance(write, Delete):
        return {}
    if WRITE_FIELD in write.data:
        raise StoreError(f"{write.key}: the field {WRITE_FIELD!r} is kept for the store", code="invalid_document")
    data, size = plain_fields(write.data, str(write.key))
    names = len((prefix + write.key.collection).encode()) + len(write.key.id.encode()) + 2
    size += names + _NAME_OVERHEAD + _DOCUMENT_OVERHEAD + _WRITE_FIELD_BYTES
    if size > DOCUMENT_BYTES:
        raise DocumentTooLarge(f"{write.key} has {size} bytes, the limit is {DOCUMENT_BYTES}; keep the bulk elsewhere")
    return data
