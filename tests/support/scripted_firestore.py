"""A Firestore that answers what a test orders: for refusals that no emulator gives."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.cloud.firestore_v1.types import firestore as messages
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

COMMIT: Final = "Commit"
BATCH: Final = "BatchWrite"
GET: Final = "BatchGetDocuments"
QUERY: Final = "RunQuery"

_REQUESTS: Final = {
    COMMIT: messages.CommitRequest.pb(),
    BATCH: messages.BatchWriteRequest.pb(),
    GET: messages.BatchGetDocumentsRequest.pb(),
    QUERY: messages.RunQueryRequest.pb(),
}


@dataclass(frozen=True)
class Refusal:
    """An error status; `retry_after` seconds go with it as the server's hint."""

    code: grpc.StatusCode
    text: str = "refused by the test"
    retry_after: float | None = None


@dataclass(frozen=True)
class Silence:
    """No answer."""


Answer = Refusal | Silence | Any
"""What one call gets; anything else is a message, or a list of messages for a stream."""


@dataclass
class ScriptedFirestore:
    """Each call takes the next answer of its method; the last one is given for ever.

    Attributes:
        answers: by method.
        calls: requests received, by method.
        metadata: of the latest call, by method.
        arrived: set at every call.
    """

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    calls: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    metadata: dict[str, dict[str, str | bytes]] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self, credentials: grpc.ServerCredentials | None = None, port: int = 0) -> AsyncIterator[str]:
        """Gives `host:port`; with credentials it speaks TLS. Port 0 is any free one."""
        server = grpc.aio.server()
        handlers = {
            COMMIT: grpc.unary_unary_rpc_method_handler(
                self._handler(COMMIT, stream=False), _REQUESTS[COMMIT].FromString, _serialized
            ),
            BATCH: grpc.unary_unary_rpc_method_handler(
                self._handler(BATCH, stream=False), _REQUESTS[BATCH].FromString, _serialized
            ),
            GET: grpc.unary_stream_rpc_method_handler(
                self._handler(GET, stream=True), _REQUESTS[GET].FromString, _serialized
            ),
            QUERY: grpc.unary_stream_rpc_method_handler(
                self._handler(QUERY, stream=True), _REQUESTS[QUERY].FromString, _serialized
            ),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("google.firestore.v1.Firestore", handlers),)
        )
        if credentials is None:
            port = server.add_insecure_port(f"127.0.0.1:{port}")
        else:
            port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(grace=None)
            await _rested()

    def _handler(self, method: str, *, stream: bool) -> Any:
        async def unary(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            return await self._answer(method, request, context)

        async def streamed(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            for item in await self._answer(method, request, context):
                yield item

        return streamed if stream else unary

    async def _answer(self, method: str, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        self.calls[method].append(request)
        self.metadata[method] = dict(context.invocation_metadata() or ())
        self.arrived.set()
        script = self.answers[method]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, Silence):
            await asyncio.Event().wait()
        if isinstance(answer, Refusal):
            await _refuse(context, answer)
        return answer


async def _rested() -> None:
    """A stopped server's calls may have a few turns of the loop to go."""
    names = ("rpc_task", "HandleExceptions[/google.firestore.v1.Firestore/")
    calls = [task for task in asyncio.all_tasks() if task.get_name().startswith(names)]
    if calls:
        await asyncio.wait(calls, timeout=10)


async def _refuse(context: grpc.aio.ServicerContext[Any, Any], refusal: Refusal) -> None:
    metadata: tuple[tuple[str, bytes], ...] = ()
    if refusal.retry_after is not None:
        detail = AnyMessage()
        delay = Duration(seconds=int(refusal.retry_after), nanos=int(refusal.retry_after % 1 * 1e9))
        detail.Pack(RetryInfo(retry_delay=delay))
        status = Status(code=refusal.code.value[0], message=refusal.text, details=[detail])
        metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(refusal.code, refusal.text, metadata)


def _serialized(message: Any) -> bytes:
    body: bytes = message.SerializeToString()
    return body
