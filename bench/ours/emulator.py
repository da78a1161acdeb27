"""The Firestore adapter as production wires it, without TLS and without a metadata server."""

from __future__ import annotations

import grpc.aio

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.adapters.firestore_batches import BatchedCommits
from runtime.adapters.firestore_grpc import FirestoreGrpc
from runtime.adapters.grpc_calls import CHANNEL_OPTIONS
from runtime.ports.documents import Documents


class OwnerTokens:
    """The token that the emulator takes for its owner's."""

    async def access_token(self, scope: str) -> str:
        return "owner"

    async def id_token(self, audience: str) -> str:
        raise AssertionError(audience)


def firestore(address: str) -> Documents:
    """A store of the running event loop."""
    channel = grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
    calls = FirestoreGrpc(channel, OwnerTokens(), "projects/bench-project/databases/(default)")
    clock = SystemClock()
    return FirestoreDocuments(BatchedCommits(calls, clock), clock)
