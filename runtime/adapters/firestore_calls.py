"""What the document store asks of a connection to Firestore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.adapters.google_messages import Message

Left = Callable[[], float]
"""Seconds that a caller still has; asked right before a request is sent, and never for one that is not."""


class FirestoreCalls(Protocol):
    """One try of each call, in the messages of google_messages.

    Every call raises CallFailed, ChannelClosed, or TokenUnavailable: the last before anything is sent.
    """

    @property
    def database(self) -> str:
        """Full name, `projects/P/databases/D`."""
        ...

    async def commit(self, request: Message, left: Left) -> Message:
        """Commit."""
        ...

    async def batch_write(self, request: Message, left: Left) -> Message:
        """BatchWrite: one status and one result for each write, whatever became of the others."""
        ...

    async def batch_get(self, request: Message, left: Left) -> list[Message]:
        """BatchGetDocuments, read to its end."""
        ...

    async def run_query(self, request: Message, left: Left) -> list[Message]:
        """RunQuery, read to its end."""
        ...

    async def close(self) -> None:
        """Releases the connection; may be called once."""
        ...
