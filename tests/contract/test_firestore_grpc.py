"""The thin client against Google's own: what goes over the wire beside the documents."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.adapters.firestore_grpc import FirestoreGrpc
from runtime.adapters.google_messages import message_class
from runtime.adapters.grpc_calls import secure_channel
from runtime.ports.documents import Create, Key, Query, StoreUnavailable
from tests.support.firestore_calls import Connect, OwnerTokens, google, thin
from tests.support.scripted_firestore import BATCH, COMMIT, GET, QUERY, ScriptedFirestore

KEY = Key("claims", "one")
TELEMETRY = {"user-agent", "x-goog-api-client"}
"""Names of libraries and their versions."""


def committed() -> Any:
    response = message_class("google.firestore.v1.CommitResponse")()
    response.write_results.add().update_time.seconds = 1
    return response


@pytest.fixture
async def served() -> AsyncIterator[tuple[ScriptedFirestore, str]]:
    batch = message_class("google.firestore.v1.BatchWriteResponse")()
    firestore = ScriptedFirestore(answers={COMMIT: [committed()], BATCH: [batch], GET: [[]], QUERY: [[]]})
    async with firestore.serving() as address:
        yield firestore, address


@pytest.mark.timeout(120)
async def test_a_store_that_was_away_is_used_again_within_seconds_of_its_return() -> None:
    """BR-43: gRPC's own pauses between tries to connect grow past every budget that a delivery has."""
    firestore = ScriptedFirestore(answers={GET: [[]]})
    async with firestore.serving() as address:
        documents = FirestoreDocuments(thin(address, "p-test"), SystemClock(), retries=0)
        await documents.get(KEY)
    # Away for so long that the next pause of gRPC, as it comes, would begin now and be twice the patience below.
    away = time.monotonic() + 27
    while time.monotonic() < away:
        with pytest.raises(StoreUnavailable):
            await documents.get(KEY)
        await asyncio.sleep(0.5)
    async with firestore.serving(port=int(address.rsplit(":", 1)[1])), asyncio.timeout(10):
        while True:
            with contextlib.suppress(StoreUnavailable):
                await documents.get(KEY)
                break
            await asyncio.sleep(0.1)
        await documents.close()


def self_signed(host: str) -> grpc.ServerCredentials:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return grpc.ssl_server_credentials([(private, certificate.public_bytes(pem))])


Served = tuple[ScriptedFirestore, str]


async def metadata_of(served: Served, connect: Connect) -> dict[str, dict[str, str | bytes]]:
    firestore, address = served
    documents = FirestoreDocuments(connect(address, "p-test"), SystemClock())
    await documents.get(KEY)
    await documents.commit([Create(KEY, {})])
    await documents.query(Query("claims"))
    calls = connect(address, "p-test")
    await calls.batch_write(message_class("google.firestore.v1.BatchWriteRequest")(database=calls.database), lambda: 5)
    await calls.close()
    await documents.close()
    return {
        method: {name: value for name, value in metadata.items() if name not in TELEMETRY}
        for method, metadata in firestore.metadata.items()
    }


async def test_each_call_is_routed_and_authorised_as_googles_client_does(served: Served) -> None:
    own = await metadata_of(served, thin)
    assert own == await metadata_of(served, google)
    assert (
        own[BATCH]
        == own[COMMIT]
        == {
            "authorization": "Bearer owner",
            "google-cloud-resource-prefix": "projects/p-test/databases/(default)",
            "x-goog-request-params": "database=projects/p-test/databases/%28default%29",
        }
    )


async def test_each_call_takes_the_token_of_its_time(served: Served) -> None:
    firestore, address = served
    tokens = OwnerTokens("first")
    documents = FirestoreDocuments(thin(address, "p", tokens), SystemClock())
    await documents.get(KEY)
    assert firestore.metadata[GET]["authorization"] == "Bearer first"
    tokens.token = "second"
    await documents.get(KEY)
    assert firestore.metadata[GET]["authorization"] == "Bearer second"
    await documents.close()


async def test_nothing_is_said_to_a_server_whose_certificate_nobody_vouches_for() -> None:
    firestore = ScriptedFirestore(answers={GET: [[]]})
    async with firestore.serving(credentials=self_signed("localhost")) as address:
        channel = secure_channel(address.replace("127.0.0.1", "localhost"))
        documents = FirestoreDocuments(FirestoreGrpc(channel, OwnerTokens(), "d"), SystemClock(), retries=0)
        with pytest.raises(StoreUnavailable, match="UNAVAILABLE"):
            await documents.get(KEY)
        await documents.close()
    assert not firestore.calls


async def test_without_a_token_nothing_is_sent_and_nothing_was_written(served: Served) -> None:
    firestore, address = served
    documents = FirestoreDocuments(thin(address, "p", OwnerTokens(None)), SystemClock())
    calls = [documents.commit([Create(KEY, {})]), documents.get(KEY), documents.query(Query("claims"))]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="no token today") as caught:
            await call
        assert not caught.value.unclear
    assert not firestore.calls
    await documents.close()
