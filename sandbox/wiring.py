"""Local adapters and connectors for a role, in the process of an instance."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from runtime.adapters.google_keys import GoogleKeySource
from runtime.adapters.metadata_server import MetadataTokens
from runtime.adapters.postgres import PostgresDocuments
from runtime.adapters.postgres_schema import open_pool
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.worker import WorkerSettings
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.process import run_role as run
from runtime.roles import Outside, Settings
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.ordered_faults import FaultyDocuments, FaultyHttp, OrderedFaults, skewed_clock
from sandbox.network import LoopbackConnector
from sandbox.sql.documents import DeclaredDocuments

CONNECT_SECONDS: Final = 5
TOTAL_SECONDS: Final = 60
POOL_CONNECTIONS: Final = 4
"""Connections of one instance; the server takes a hundred in all."""


def run_role(role: str, instance: InstanceConfig, listener: socket.socket, environ: Mapping[str, str]) -> int:
    """Runs a role as its image would, with adapters of this machine; returns its exit code."""

    @asynccontextmanager
    async def connect(settings: Settings, clock: Clock) -> AsyncIterator[Outside]:
        faults = OrderedFaults(instance.faults, clock)
        timeout = aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS)
        async with aiohttp.ClientSession(
            connector=LoopbackConnector(instance.hosts),
            timeout=timeout,
            trust_env=False,
            middlewares=[FaultyHttp(faults)] if instance.faults else (),
        ) as session:
            yield Outside(
                documents=None
                if isinstance(settings, ExecutorSettings)
                else await _documents(settings, instance, clock, faults),
                publisher=_pubsub(instance, session, clock) if isinstance(settings, ApiSettings) else None,
                tokens=MetadataTokens(session, clock),
                session=session,
                key_source=GoogleKeySource(session),
            )

    return run(role, environ, connect, listener, skewed_clock(instance.faults))


async def _documents(
    settings: ApiSettings | WorkerSettings, instance: InstanceConfig, clock: Clock, faults: OrderedFaults
) -> Documents:
    store = PostgresDocuments(
        await open_pool(instance.postgres_dsn, size=POOL_CONNECTIONS),
        prefix=settings.collection_prefix,
        indexes=instance.logical_indexes(settings.collection_prefix),
        clock=clock,
    )
    declared = DeclaredDocuments(store, settings.database, instance.store)
    return FaultyDocuments(declared, faults) if instance.faults else declared


def _pubsub(instance: InstanceConfig, session: aiohttp.ClientSession, clock: Clock) -> Publisher:
    import grpc.aio

    from runtime.adapters.pubsub import PubSubPublisher

    channel = grpc.aio.insecure_channel(f"127.0.0.1:{instance.pubsub_port}")
    return PubSubPublisher(channel, MetadataTokens(session, clock))
