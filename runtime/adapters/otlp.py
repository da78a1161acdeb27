"""Spans, sent over OTLP by OpenTelemetry's own SDK, from a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

import grpc
import structlog
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import SpanKind as SdkKind

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.settings.tracing import TracingSettings
from runtime.contract.trace_context import TraceContext
from runtime.ports.clock import Clock
from runtime.ports.tokens import Tokens, TokenUnavailable
from runtime.ports.tracing import NOTHING, Attributes, Span, SpanKind, Value, current, within

SCOPE: Final = "https://www.googleapis.com/auth/trace.append"
REFRESH_SECONDS: Final = 30
"""How often the exporting thread's token is looked at; the tokens themselves are cached until shortly before expiry."""
FIRST_TOKEN_SECONDS: Final = 60
"""Longest wait for the first token where traces are required."""
FLUSH_SECONDS: Final = 0.8
"""Longest that the last spans may take when the process ends: of the 10 s until the platform kills, the drain has 9."""
QUEUE_SPANS: Final = 2048
BATCH_SPANS: Final = 512
DELAY_SECONDS: Final = 5
"""All three OpenTelemetry's own defaults, given because the SDK would read them from the environment."""

_KINDS: Final = {
    SpanKind.SERVER: SdkKind.SERVER,
    SpanKind.CONSUMER: SdkKind.CONSUMER,
    SpanKind.INTERNAL: SdkKind.INTERNAL,
}

log = structlog.get_logger()


class TracingUnavailable(HoldfastError):
    """Traces are required and nothing could be exported."""

    code = "tracing_unavailable"
    decision = Decision.RETRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose spans they are.

    Attributes:
        service: name of the service.
        version: of the program.
        project_id: the project that is charged for the traces.
    """

    service: str
    version: str
    project_id: str


class _SdkSpan:
    def __init__(self, span: SdkSpan) -> None:
        self._span = span

    def set(self, name: str, value: Value) -> None:
        """See Span."""
        self._span.set_attribute(name, value)

    def fail(self, error: str) -> None:
        """See Span."""
        self._span.set_status(Status(StatusCode.ERROR, error))


class OtlpTracing:
    """Records the spans of traces that their callers record, and of those that begin here.

    Args:
        exporter: of finished spans; used by a thread of its own.
        origin: whose spans they are.
    """

    def __init__(self, exporter: SpanExporter, origin: Origin) -> None:
        self._processor = BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUE_SPANS,
            schedule_delay_millis=1000 * DELAY_SECONDS,
            max_export_batch_size=BATCH_SPANS,
            export_timeout_millis=1000 * DELAY_SECONDS,
        )
        provider = TracerProvider(
            sampler=ParentBased(ALWAYS_ON),
            resource=Resource(
                {
                    "service.name": origin.service,
                    "service.version": origin.version,
                    "gcp.project_id": origin.project_id,
                }
            ),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attributes=32, max_events=0, max_links=0, max_attribute_length=256),
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("holdfast")

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: TraceContext | None = None,
        attributes: Attributes = NOTHING,
    ) -> Iterator[Span]:
        """See Tracing."""
        parent = parent or current()
        around = None if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)))
        span = self._tracer.start_span(name, context=around, kind=_KINDS[kind], attributes=dict(attributes))
        made = span.get_span_context()
        context = TraceContext(
            f"{made.trace_id:032x}", f"{made.span_id:016x}", made.trace_flags.sampled, made.trace_state.to_header()
        )
        try:
            with within(context):
                yield _SdkSpan(span)
        except BaseException as error:
            # Its text may hold what no trace may.
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    async def close(self) -> None:
        """Sends what is left, for FLUSH_SECONDS at most; spans that end later are dropped."""
        # The SDK waits for its thread as long as for an export. A daemon thread of ours can be left to it.
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        closing = threading.Thread(target=_then(self._processor.shutdown, loop, done), name="close traces", daemon=True)
        closing.start()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await done.wait()
        except TimeoutError:
            log.warning("traces_not_sent", seconds=FLUSH_SECONDS)


def _then(work: Callable[[], None], loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        finally:
            # A loop that is closed by now waits for nothing any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

    return run


class FreshToken(grpc.AuthMetadataPlugin):
    """The exporting thread's view of an access token, which a task of the loop keeps fresh.

    Args:
        tokens: of the process's own account.
        clock: for the pauses between two looks.
    """

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._token = ""

    def __call__(self, _context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Called by gRPC from a thread of its own."""
        if self._token:
            callback((("authorization", f"Bearer {self._token}"),), None)
        else:
            callback((), TokenUnavailable("no token for traces has been fetched yet"))

    async def refresh(self) -> None:
        """Asks once.

        Raises:
            TokenUnavailable
        """
        self._token = await self._tokens.access_token(SCOPE)

    async def run(self) -> None:
        """Keeps the token fresh until it is cancelled; an outage leaves the last one."""
        while True:
            try:
                await self.refresh()
            except TokenUnavailable as error:
                log.warning("trace_token_unavailable", error=str(error))
            await self._clock.sleep(REFRESH_SECONDS)


@asynccontextmanager
async def open_tracing(
    settings: TracingSettings, endpoint: str, origin: Origin, tokens: Tokens, clock: Clock
) -> AsyncIterator[OtlpTracing]:
    """Tracing to an endpoint as the process's own account, closed with what is left sent.

    Raises:
        TracingUnavailable: traces are required and no token came in time.
    """
    token = FreshToken(tokens, clock)
    if settings.required:
        await _first(token, clock)
    exporter = OTLPSpanExporter(
        endpoint=endpoint,
        insecure=False,
        credentials=grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(), grpc.metadata_call_credentials(token)
        ),
        headers={"x-goog-user-project": origin.project_id},
        timeout=settings.timeout.total_seconds(),
        compression=grpc.Compression.NoCompression,
    )
    refreshing = asyncio.create_task(token.run(), name="refresh the token for traces")
    tracing = OtlpTracing(exporter, origin)
    try:
        yield tracing
    finally:
        await tracing.close()
        refreshing.cancel()
        await asyncio.wait({refreshing})


async def _first(token: FreshToken, clock: Clock) -> None:
    try:
        async with clock.timeout(FIRST_TOKEN_SECONDS):
            while True:
                try:
                    return await token.refresh()
                except TokenUnavailable as error:
                    log.warning("trace_token_unavailable", error=str(error))
                await clock.sleep(1)
    except TimeoutError:
        raise TracingUnavailable(
            f"GCP_REQUIRE_OTEL is true, but the metadata server gave no token for {SCOPE} in {FIRST_TOKEN_SECONDS} s; "
            "set it to false to serve without traces"
        ) from None


def _remote(context: TraceContext) -> SpanContext:
    return SpanContext(
        trace_id=int(context.trace_id, 16),
        span_id=int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(context.sampled)),
        trace_state=TraceState.from_header([context.state]) if context.state else None,
    )
