"""Production adapters for a role: the only file that knows Google's endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import structlog

from runtime.adapters.google_keys import GoogleKeySource
from runtime.adapters.metadata_server import MetadataTokens
from runtime.contract.forbidden import Role
from runtime.contract.version import VERSION
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.ports.tokens import Tokens
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.roles import Outside, Settings, service_name

if TYPE_CHECKING:  # a role loads no other role's
    from runtime.contract.settings.api import ApiSettings
    from runtime.contract.settings.worker import WorkerSettings

FIRESTORE_ENDPOINT: Final = "firestore.googleapis.com:443"
PUBSUB_ENDPOINT: Final = "pubsub.googleapis.com:443"
CONNECT_SECONDS: Final = 5
TOTAL_SECONDS: Final = 60
"""Bound of a call that names none; callers name their own."""

log = structlog.get_logger()


@asynccontextmanager
async def google(settings: Settings, clock: Clock) -> AsyncIterator[Outside]:
    """Connections to Google Cloud, as the service account that the process runs as."""
    timeout = aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS)
    # Every run holds a connection of its own for as long as it goes on: a pool with an end would starve the others.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        tokens = MetadataTokens(session, clock)
        async with _traces(settings, tokens, clock) as tracing:
            yield Outside(
                documents=None if settings.role is Role.EXECUTOR else _firestore(settings, tokens, clock),
                publisher=_pubsub(tokens, clock) if settings.role is Role.API else None,
                tokens=tokens,
                session=session,
                key_source=GoogleKeySource(session),
                tracing=tracing,
            )


@asynccontextmanager
async def _traces(settings: Settings, tokens: Tokens, clock: Clock) -> AsyncIterator[Tracing]:
    endpoint, project = settings.tracing.endpoint, settings.project_id
    if endpoint is None or project is None:
        if endpoint is not None:
            log.warning("traces_not_exported", reason="GCP_PROJECT_ID is not set", endpoint=endpoint)
        yield PASSED_ON
        return
    from runtime.adapters.otlp import Origin, open_tracing

    origin = Origin(service=service_name(settings), version=VERSION, project_id=project)
    async with open_tracing(settings.tracing, endpoint, origin, tokens, clock) as tracing:
        yield tracing


def _firestore(settings: ApiSettings | WorkerSettings, tokens: Tokens, clock: Clock) -> Documents:
    from runtime.adapters.firestore import FirestoreDocuments
    from runtime.adapters.firestore_batches import BatchedCommits
    from runtime.adapters.firestore_grpc import FirestoreGrpc
    from runtime.adapters.grpc_calls import secure_channel

    database = f"projects/{settings.project_id}/databases/{settings.database}"
    calls = BatchedCommits(FirestoreGrpc(secure_channel(FIRESTORE_ENDPOINT), tokens, database), clock)
    return FirestoreDocuments(calls, clock=clock, prefix=settings.collection_prefix, retries=settings.store_retries)


def _pubsub(tokens: Tokens, clock: Clock) -> Publisher:
    from runtime.adapters.grpc_calls import secure_channel
    from runtime.adapters.pubsub import PubSubPublisher

    return PubSubPublisher(secure_channel(PUBSUB_ENDPOINT), tokens, clock)
