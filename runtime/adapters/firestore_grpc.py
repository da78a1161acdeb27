"""Firestore's four calls over gRPC, without Google's client library."""

from __future__ import annotations

from typing import Any, Final

import grpc.aio

from runtime.adapters.firestore_calls import Left
from runtime.adapters.google_messages import Message, message_class
from runtime.adapters.grpc_calls import Method, routing
from runtime.contract.names import SCOPE_DATASTORE
from runtime.ports.tokens import Tokens

_SERVICE: Final = "/google.firestore.v1.Firestore/"
_PACKAGE: Final = "google.firestore.v1."


class FirestoreGrpc:
    """The calls as the process's own service account; the metadata is what Google's client sends.

    Args:
        channel: to the service, of the running event loop; taken over, and close() closes it.
        tokens: who calls.
        database: full name, `projects/P/databases/D`.
    """

    def __init__(self, channel: grpc.aio.Channel, tokens: Tokens, database: str) -> None:
        self.database = database
        self._channel = channel
        prefix = ("google-cloud-resource-prefix", database)
        self._by_database = (routing("database", database), prefix)
        self._by_parent = (routing("parent", f"{database}/documents"), prefix)

        def method(name: str, *, stream: bool) -> Method:
            answer = message_class(f"{_PACKAGE}{name}Response")
            return Method(channel, tokens, SCOPE_DATASTORE, _SERVICE + name, answer, stream=stream)

        self._commit = method("Commit", stream=False)
        self._batch_write = method("BatchWrite", stream=False)
        self._batch_get = method("BatchGetDocuments", stream=True)
        self._run_query = method("RunQuery", stream=True)

    async def commit(self, request: Message, left: Left) -> Message:
        """See FirestoreCalls."""
        return await self._commit(request, self._by_database, left)

    async def batch_write(self, request: Message, left: Left) -> Message:
        """See FirestoreCalls."""
        return await self._batch_write(request, self._by_database, left)

    async def batch_get(self, request: Message, left: Left) -> list[Any]:
        """See FirestoreCalls."""
        items: list[Any] = await self._batch_get(request, self._by_database, left)
        return items

    async def run_query(self, request: Message, left: Left) -> list[Any]:
        """See FirestoreCalls."""
        items: list[Any] = await self._run_query(request, self._by_parent, left)
        return items

    async def close(self) -> None:
        """See FirestoreCalls."""
        await self._channel.close(grace=None)
