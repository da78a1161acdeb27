"""What Firestore's errors mean to a caller of the document store."""

from __future__ import annotations

from typing import Final

from grpc import StatusCode

from runtime.adapters.grpc_calls import CallFailed
from runtime.ports.documents import IndexMissing, StoreError, StoreMisconfigured, StoreUnavailable

NOT_APPLIED: Final = frozenset({StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED})
"""Refused before anything was written: safe to send a write again."""
TRANSIENT: Final = NOT_APPLIED | {
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.INTERNAL,
    StatusCode.UNKNOWN,
}
"""A read may be sent again; of a write nobody knows."""
CONDITION: Final = frozenset({StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND})
"""Of a write: its condition did not hold, or the database is missing or in another mode. Only a read tells which."""

MISCONFIGURED: Final = CONDITION | {
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAUTHENTICATED,
    StatusCode.UNIMPLEMENTED,
}
"""The database, or what we may do in it, is not what was deployed; CONDITION says so where no document explains it."""
REFUSED: Final = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE})
"""What was asked can never be done."""


def store_error(error: CallFailed, *, write: bool) -> StoreError:
    """The port's error for one that is not, or no more, retried.

    Args:
        error: of the call.
        write: whether a write was sent.
    """
    text = f"Firestore: {error.text}"
    if error.status is StatusCode.FAILED_PRECONDITION and "requires an index" in text:
        return IndexMissing(text)
    if error.status in MISCONFIGURED:
        return StoreMisconfigured(text)
    if error.status in REFUSED:
        return StoreError(text)
    return StoreUnavailable(text, unclear=write and error.status not in NOT_APPLIED)
