"""Two ways to Firestore under one store: the thin client, and Google's own as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc.aio
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.types import firestore as messages
from google.rpc.error_details_pb2 import RetryInfo
from grpc import StatusCode

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore_batches import BatchedCommits
from runtime.adapters.firestore_calls import FirestoreCalls, Left
from runtime.adapters.firestore_grpc import FirestoreGrpc
from runtime.adapters.google_messages import Message, message_class
from runtime.adapters.grpc_calls import CHANNEL_OPTIONS, CallFailed, answered
from runtime.contract.names import SCOPE_DATASTORE
from runtime.ports.tokens import TokenUnavailable
from tests.support.emulators import firestore_client

Connect = Callable[[str, str], FirestoreCalls]
"""(`host:port`, project) -> a connection of the running event loop."""


class OwnerTokens:
    """Gives the token that the emulator takes for its owner's; None: cannot give any."""

    def __init__(self, token: str | None = "owner") -> None:
        self.token = token

    async def access_token(self, scope: str) -> str:
        assert scope == SCOPE_DATASTORE
        if self.token is None:
            raise TokenUnavailable("no token today")
        return self.token

    async def id_token(self, audience: str) -> str:
        raise AssertionError(audience)


def thin(address: str, project: str, tokens: OwnerTokens | None = None) -> FirestoreCalls:
    """The thin client, without TLS."""
    channel = grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
    calls = FirestoreGrpc(channel, tokens or OwnerTokens(), f"projects/{project}/databases/(default)")
    return BatchedCommits(calls, SystemClock())


def google(address: str, project: str) -> FirestoreCalls:
    """Google's client."""
    return GoogleCalls(firestore_client(address, project))


class GoogleCalls:
    """The calls of the generated client beneath AsyncClient, which owns its channel, routing and credentials."""

    def __init__(self, client: AsyncClient) -> None:
        self._client: Any = client

    @property
    def database(self) -> str:
        return str(self._client._database_string)

    async def commit(self, request: Message, left: Left) -> Message:
        return await answered(self._sent("commit", messages.CommitRequest, request, left))

    async def batch_write(self, request: Message, left: Left) -> Message:
        return await answered(self._sent("batch_write", messages.BatchWriteRequest, request, left))

    async def batch_get(self, request: Message, left: Left) -> list[Message]:
        return await answered(self._read("batch_get_documents", messages.BatchGetDocumentsRequest, request, left))

    async def run_query(self, request: Message, left: Left) -> list[Message]:
        return await answered(self._read("run_query", messages.RunQueryRequest, request, left))

    async def close(self) -> None:
        await self._client._firestore_api.transport.close()

    async def _read(self, method: str, kind: Any, request: Message, left: Left) -> list[Message]:
        try:
            stream = await getattr(self._client._firestore_api, method)(
                kind.deserialize(request.SerializeToString()), **self._options(left)
            )
            return [_ours(item) async for item in stream]
        except GoogleAPICallError as error:
            raise _failed(error) from error

    async def _sent(self, method: str, kind: Any, request: Message, left: Left) -> Message:
        try:
            answer = await getattr(self._client._firestore_api, method)(
                kind.deserialize(request.SerializeToString()), **self._options(left)
            )
        except GoogleAPICallError as error:
            raise _failed(error) from error
        return _ours(answer)

    def _options(self, left: Left) -> dict[str, Any]:
        return {"retry": None, "timeout": max(0.0, left()), "metadata": self._client._rpc_metadata}


def _ours(message: Any) -> Message:
    pb = type(message).pb(message)
    return message_class(pb.DESCRIPTOR.full_name).FromString(pb.SerializeToString())


def _failed(error: GoogleAPICallError) -> CallFailed:
    code: object = error.grpc_status_code
    delays = [detail.retry_delay.ToTimedelta() for detail in error.details if isinstance(detail, RetryInfo)]
    longest = max((delay.total_seconds() for delay in delays), default=0.0)
    return CallFailed(code if isinstance(code, StatusCode) else StatusCode.UNKNOWN, error.message or "", longest)
