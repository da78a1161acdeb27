"""Fixtures of the contract tier: one suite per port, run against every adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

import pytest

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.adapters.memory import MemoryDocuments
from runtime.adapters.postgres import PostgresDocuments
from runtime.adapters.postgres_schema import create_schema, open_pool
from runtime.adapters.query_rules import Indexes
from runtime.contract.names import INDEXES
from runtime.ports.documents import Documents
from tests.support.emulators import firestore_emulator, project, pubsub_emulator
from tests.support.firestore_calls import Connect, google, thin
from tests.support.postgres import PostgresServer, postgres_dsn, postgres_server

__all__ = ["firestore_emulator", "postgres_dsn", "postgres_server", "project", "pubsub_emulator"]


class OpenDocuments(Protocol):
    """Opens a store that shares nothing with any other test."""

    async def __call__(self, *, prefix: str = "", indexes: Indexes | None = None) -> Documents: ...


Factory = Callable[[AsyncExitStack, str, Indexes | None], Awaitable[Documents]]


@pytest.fixture(
    params=[
        "memory",
        "postgres",
        pytest.param("firestore", marks=pytest.mark.emulator),
        pytest.param("google", marks=pytest.mark.emulator),
    ]
)
def backend(request: pytest.FixtureRequest) -> Factory:
    """Starts what an adapter needs; not in a loop, which starting a process would block."""
    match request.param:
        case "memory":
            return _memory
        case "postgres":
            return _postgres(request.getfixturevalue("postgres_server"))
        case own_or_googles:
            address, project_id = request.getfixturevalue("firestore_emulator"), request.getfixturevalue("project")
            return _firestore(thin if own_or_googles == "firestore" else google, address, project_id)


@pytest.fixture
async def open_documents(backend: Factory) -> AsyncIterator[OpenDocuments]:
    async with AsyncExitStack() as stack:

        async def open_one(*, prefix: str = "", indexes: Indexes | None = None) -> Documents:
            documents = await backend(stack, prefix, indexes)
            stack.push_async_callback(documents.close)
            return documents

        yield open_one


@pytest.fixture
async def documents(open_documents: OpenDocuments) -> Documents:
    return await open_documents()


async def _memory(stack: AsyncExitStack, prefix: str, indexes: Indexes | None) -> Documents:
    return MemoryDocuments(SystemClock(), prefix, indexes)


def _postgres(server: PostgresServer) -> Factory:
    async def make(stack: AsyncExitStack, prefix: str, indexes: Indexes | None) -> Documents:
        pool = await open_pool(await stack.enter_async_context(server.database()))
        await create_schema(pool, prefix=prefix, indexes=INDEXES)
        return PostgresDocuments(pool, prefix=prefix, indexes=indexes)

    return make


def _firestore(connect: Connect, address: str, project_id: str) -> Factory:
    async def make(stack: AsyncExitStack, prefix: str, indexes: Indexes | None) -> Documents:
        return FirestoreDocuments(connect(address, project_id), SystemClock(), prefix)

    return make
