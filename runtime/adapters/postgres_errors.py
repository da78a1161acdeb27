"""What PostgreSQL's errors mean to a caller of the document store."""

from __future__ import annotations

from typing import Final

import asyncpg

from runtime.ports.documents import StoreError, StoreMisconfigured, StoreUnavailable

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Everything that a driver call raises, timeouts apart."""

# Classes of SQLSTATE: PostgreSQL documentation, appendix A.
_ROLLED_BACK: Final = ("25", "40", "53", "55", "57014", "57P05")
"""The server says so itself: nothing was written, and a later try may succeed."""
_MISCONFIGURED: Final = ("0A", "28", "3D", "3F", "42")
"""Permission, login, database or table missing."""
_LOST: Final = ("08", "57P", "58", "XX")
"""The connection or the server ended; a statement under way may have been committed."""


def store_error(error: BaseException, *, sent: bool) -> StoreError:
    """The port's error for a driver's one.

    Args:
        error: one of DRIVER_ERRORS.
        sent: whether a write was on its way that the server may have committed.
    """
    state = getattr(error, "sqlstate", None)
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if isinstance(error, asyncpg.PostgresError) and isinstance(state, str):
        if state.startswith(_ROLLED_BACK):
            return StoreUnavailable(text, unclear=False)
        if state.startswith(_MISCONFIGURED):
            return StoreMisconfigured(text)
        if not state.startswith(_LOST):
            return StoreError(text)
    return StoreUnavailable(text, unclear=sent)
