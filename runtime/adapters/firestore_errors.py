"""What Firestore's errors mean to a caller of the document store."""

from __future__ import annotations

from typing import Any, Final

from google.api_core.exceptions import GoogleAPICallError
from google.rpc.error_details_pb2 import RetryInfo
from grpc import StatusCode

from runtime.adapters.grpc_calls import described, status_of
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

_MISCONFIGURED: Final = CONDITION | {
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAUTHENTICATED,
    StatusCode.UNIMPLEMENTED,
}
_REFUSED: Final = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE})


def store_error(error: GoogleAPICallError, *, write: bool) -> StoreError:
    """The port's error for one that is not, or no more, retried.

    Args:
        error: the client library's.
        write: whether a write was sent.
    """
    code = status_of(error)
    text = f"Firestore: {described(error)}"
    if code is StatusCode.FAILED_PRECONDITION and "requires an index" in text:
        return IndexMissing(text)
    if code in _MISCONFIGURED:
        return StoreMisconfigured(text)
    if code in _REFUSED:
        return StoreError(text)
    return StoreUnavailable(text, unclear=write and code not in NOT_APPLIED)


def retry_hint(error: GoogleAPICallError) -> float:
    """Seconds that the server asks to wait; 0 where it does not."""
    details: list[Any] = [d for d in error.details if isinstance(d, RetryInfo)]
    return max((d.retry_delay.ToTimedelta().total_seconds() for d in details), default=0.0)
