"""A receiver of OTLP over gRPC on loopback, which keeps the spans that it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from runtime.adapters.otlp import Origin, OtlpTracing

ORIGIN = Origin(service="executor", version="1", project_id="p-test")


class TraceReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """What arrived.

    Attributes:
        spans: name -> each span of that name.
        resource: attributes of the last sender.
    """

    def __init__(self) -> None:
        self.spans: dict[str, list[Any]] = {}
        self.resource: dict[str, str] = {}

    async def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - named by the service
        for group in request.resource_spans:
            self.resource = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    self.spans.setdefault(span.name, []).append(span)
        return trace_service_pb2.ExportTraceServiceResponse()

    def one(self, name: str) -> Any:
        """The only span of a name."""
        (span,) = self.spans[name]
        return span


def attributes(span: Any) -> dict[str, str | int]:
    """A span's attributes."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[TraceReceiver, OtlpTracing]]:
    """A receiver, and the tracing that sends to it. Close the tracing to have what was recorded."""
    receiver, server = TraceReceiver(), grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]  # generated
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    # The exporter checks its channel when it is made; the loop must go on meanwhile.
    exporter = await asyncio.to_thread(
        OTLPSpanExporter, endpoint=f"http://127.0.0.1:{port}", insecure=True, headers={"x-goog-user-project": "p-test"}
    )
    try:
        yield receiver, OtlpTracing(exporter, ORIGIN)
    finally:
        await server.stop(None)
