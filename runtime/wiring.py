"""Production adapters for a role: the only file that knows Google's endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from runtime.adapters.google_keys import GoogleKeySource
from runtime.adapters.metadata_server import MetadataTokens
from runtime.contract.settings.api import ApiSettings
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.roles import Outside, Settings

PUBSUB_ENDPOINT: Final = "pubsub.googleapis.com:443"
CONNECT_SECONDS: Final = 5
TOTAL_SECONDS: Final = 60
"""Bound of a call that names none; callers name their own."""


@asynccontextmanager
async def google(settings: Settings, clock: Clock) -> AsyncIterator[Outside]:
    """Connections to Google Cloud, as the service account that the process runs as."""
    timeout = aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        yield Outside(
            documents=_firestore(settings, clock),
            publisher=_pubsub(session, clock) if isinstance(settings, ApiSettings) else None,
            session=session,
            key_source=GoogleKeySource(session),
        )


def _firestore(settings: Settings, clock: Clock) -> Documents:
    from google.cloud.firestore import AsyncClient

    from runtime.adapters.firestore import FirestoreDocuments

    client = AsyncClient(project=settings.project_id, database=settings.database)
    return FirestoreDocuments(client, clock=clock, prefix=settings.collection_prefix, retries=settings.store_retries)


def _pubsub(session: aiohttp.ClientSession, clock: Clock) -> Publisher:
    import grpc.aio

    from runtime.adapters.pubsub import PubSubPublisher

    channel = grpc.aio.secure_channel(PUBSUB_ENDPOINT, grpc.ssl_channel_credentials())
    return PubSubPublisher(channel, MetadataTokens(session, clock))
