"""What is Firestore's own in the document store: refusals, retries, and agreement with Google's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.cloud.firestore import AsyncClient, GeoPoint
from google.cloud.firestore_v1.types import firestore as messages
from grpc import StatusCode

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.ports.documents import (
    Create,
    Documents,
    Filter,
    IndexMissing,
    Key,
    Operator,
    Query,
    Replace,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
    Version,
    VersionMismatch,
)
from tests.support.emulators import firestore_client
from tests.support.firestore_calls import Connect, google, thin
from tests.support.local_host import deaf_port
from tests.support.scripted_firestore import COMMIT, GET, QUERY, Refusal, ScriptedFirestore, Silence

KEY = Key("claims", "one")
VERSION = Version("1767225600.000001000")
NAME = "projects/p/databases/(default)/documents/claims/one"


class ImpatientClock(SystemClock):
    """Notes the waits and does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await super().sleep(0)


@pytest.fixture
def clock() -> ImpatientClock:
    return ImpatientClock()


Scripted = tuple[FirestoreDocuments, ScriptedFirestore]


@pytest.fixture(params=[thin, google])
def connect(request: pytest.FixtureRequest) -> Connect:
    connect: Connect = request.param
    return connect


@pytest.fixture
async def scripted(clock: ImpatientClock, connect: Connect) -> AsyncIterator[Scripted]:
    firestore = ScriptedFirestore()
    async with firestore.serving() as address:
        documents = FirestoreDocuments(connect(address, "p"), clock, retries=3, jitter=lambda: 1.0)
        yield documents, firestore
        await documents.close()


def committed() -> Any:
    response = messages.CommitResponse.pb()()
    response.write_results.add().update_time.seconds = 1767225600
    return response


def found(version: Version = VERSION) -> list[Any]:
    response = messages.BatchGetDocumentsResponse.pb()()
    response.found.name = NAME
    seconds, nanos = version.split(".")
    response.found.update_time.seconds, response.found.update_time.nanos = int(seconds), int(nanos)
    response.read_time.seconds = 1767225700
    return [response]


def missing() -> list[Any]:
    response = messages.BatchGetDocumentsResponse.pb()()
    response.missing = NAME
    return [response]


WRONG_DATABASE = [
    Refusal(
        StatusCode.FAILED_PRECONDITION,
        "The Cloud Firestore API is not available for Firestore in Datastore Mode database projects/p.",
    ),
    Refusal(StatusCode.NOT_FOUND, "The database (default) does not exist for project p"),
    Refusal(StatusCode.PERMISSION_DENIED, "Missing or insufficient permissions."),
    Refusal(StatusCode.UNAUTHENTICATED, "Request had invalid authentication credentials."),
    Refusal(StatusCode.UNIMPLEMENTED, "Not here."),
]


@pytest.mark.parametrize("refusal", WRONG_DATABASE, ids=lambda refusal: refusal.code.name)
async def test_a_wrong_missing_or_forbidden_database_is_never_a_lost_condition(
    scripted: Scripted, refusal: Refusal
) -> None:
    """BR-42"""
    documents, firestore = scripted
    firestore.answers = {COMMIT: [refusal], GET: [refusal], QUERY: [refusal]}
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: documents.get(KEY),
        lambda: documents.query(Query("claims")),
        lambda: documents.commit([Create(KEY, {})]),
        lambda: documents.commit([Replace(KEY, {}, VERSION)]),
    ]
    for call in calls:
        with pytest.raises(StoreMisconfigured, match=refusal.code.name):
            await call()


async def test_a_refused_condition_that_no_document_explains_is_a_misconfiguration(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.FAILED_PRECONDITION)], GET: [found()]}
    with pytest.raises(StoreMisconfigured):
        await documents.commit([Replace(KEY, {}, VERSION)])


@pytest.mark.parametrize("code", [StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND])
@pytest.mark.parametrize("now", [missing(), found(Version("1767225600.000002000"))], ids=["gone", "changed"])
async def test_a_lost_condition_is_told_by_reading_whatever_the_refusal_says(
    scripted: Scripted, code: StatusCode, now: list[Any]
) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(code, "in words that may change")], GET: [now]}
    with pytest.raises(VersionMismatch):
        await documents.commit([Replace(KEY, {}, VERSION)])


async def test_a_lost_condition_that_cannot_be_read_has_certainly_written_nothing(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {
        COMMIT: [Refusal(StatusCode.FAILED_PRECONDITION)],
        GET: [Refusal(StatusCode.UNAVAILABLE)],
    }
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Replace(KEY, {}, VERSION)])
    assert not caught.value.unclear


async def test_an_aborted_write_is_sent_again_until_it_is_taken(scripted: Scripted, clock: ImpatientClock) -> None:
    """BR-43"""
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.ABORTED), Refusal(StatusCode.RESOURCE_EXHAUSTED), committed()]}
    assert await documents.commit([Create(KEY, {})]) == ["1767225600.000000000"]
    assert len(firestore.calls[COMMIT]) == 3
    assert clock.waits == [0.1, 0.2]


async def test_a_write_that_is_aborted_for_ever_is_unavailable_and_certainly_not_applied(scripted: Scripted) -> None:
    """BR-43"""
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.ABORTED)]}
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Create(KEY, {})])
    assert not caught.value.unclear
    assert len(firestore.calls[COMMIT]) == 4


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
        StatusCode.CANCELLED,
        StatusCode.DATA_LOSS,
    ],
)
async def test_a_write_that_may_have_been_applied_is_sent_once(scripted: Scripted, code: StatusCode) -> None:
    """BR-43"""
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(code), committed()]}
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Create(KEY, {})])
    assert caught.value.unclear
    assert len(firestore.calls[COMMIT]) == 1


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.ABORTED,
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.INTERNAL,
    ],
)
async def test_a_read_is_sent_again_on_passing_errors(scripted: Scripted, code: StatusCode) -> None:
    """BR-43"""
    documents, firestore = scripted
    firestore.answers = {GET: [Refusal(code), Refusal(code), found()], QUERY: [Refusal(code), []]}
    document = await documents.get(KEY)
    assert document is not None
    assert document.version == VERSION
    assert await documents.query(Query("claims")) == []
    assert len(firestore.calls[GET]) == 3


async def test_a_read_that_fails_for_ever_is_unavailable_after_its_tries(
    scripted: Scripted, clock: ImpatientClock
) -> None:
    documents, firestore = scripted
    firestore.answers = {GET: [Refusal(StatusCode.UNAVAILABLE)]}
    with pytest.raises(StoreUnavailable) as caught:
        await documents.get(KEY)
    assert not caught.value.unclear
    assert clock.waits == [0.1, 0.2, 0.4]


async def test_the_servers_hint_is_waited_for(scripted: Scripted, clock: ImpatientClock) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.RESOURCE_EXHAUSTED, retry_after=2.5), committed()]}
    await documents.commit([Create(KEY, {})])
    assert clock.waits == [2.5]


async def test_a_hint_beyond_the_callers_time_ends_the_call_at_once(scripted: Scripted, clock: ImpatientClock) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.ABORTED, retry_after=20), committed()]}
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Create(KEY, {})], timeout=5)
    assert not caught.value.unclear
    assert clock.waits == []


async def test_a_server_that_says_nothing_is_left_after_the_callers_time(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Silence()], GET: [Silence()], QUERY: [Silence()]}
    with pytest.raises(StoreUnavailable) as write:
        await documents.commit([Create(KEY, {})], timeout=0.1)
    assert write.value.unclear
    calls = [documents.get(KEY, timeout=0.1), documents.query(Query("claims"), timeout=0.1)]
    for call in calls:
        with pytest.raises(StoreUnavailable) as read:
            await call
        assert not read.value.unclear


async def test_a_query_that_needs_an_index_is_told_apart_from_a_wrong_database(scripted: Scripted) -> None:
    documents, firestore = scripted
    text = "The query requires an index. You can create it here: https://console.example/"
    firestore.answers = {QUERY: [Refusal(StatusCode.FAILED_PRECONDITION, text)]}
    with pytest.raises(IndexMissing):
        await documents.query(Query("claims"))


async def test_what_the_server_finds_invalid_is_permanent(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Refusal(StatusCode.INVALID_ARGUMENT, "no")]}
    with pytest.raises(StoreError, match="INVALID_ARGUMENT: no") as caught:
        await documents.commit([Create(KEY, {})])
    assert type(caught.value) is StoreError


async def test_closing_ends_the_calls_under_way_with_an_error_and_cancels_nobody(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Silence()]}
    commit = asyncio.create_task(documents.commit([Create(KEY, {})]))
    await firestore.arrived.wait()
    await documents.close()
    with pytest.raises(StoreUnavailable) as caught:
        await commit
    assert caught.value.unclear
    assert not commit.cancelled()


async def test_a_cancelled_caller_is_cancelled(scripted: Scripted) -> None:
    documents, firestore = scripted
    firestore.answers = {COMMIT: [Silence()]}
    commit = asyncio.create_task(documents.commit([Create(KEY, {})]))
    await firestore.arrived.wait()
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit


async def test_a_server_that_is_not_there_is_unavailable(clock: ImpatientClock, connect: Connect) -> None:
    with deaf_port() as port:
        documents = FirestoreDocuments(connect(f"127.0.0.1:{port}", "p"), clock, retries=1)
        with pytest.raises(StoreUnavailable) as read:
            await documents.get(KEY, timeout=5)
        assert not read.value.unclear
        with pytest.raises(StoreUnavailable):
            await documents.commit([Create(KEY, {})], timeout=5)
        await documents.close()


@pytest.fixture
async def client(firestore_emulator: str, project: str) -> AsyncIterator[AsyncClient]:
    client: Any = firestore_client(firestore_emulator, project)
    yield client
    await client._firestore_api.transport.close()


@pytest.mark.emulator
async def test_googles_own_client_reads_what_the_store_wrote(
    firestore_emulator: str, project: str, client: AsyncClient
) -> None:
    documents: Documents = FirestoreDocuments(thin(firestore_emulator, project), SystemClock(), prefix="pre-")
    data = {"a.b": 1, "when": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"x", "list": [{"n": None}], "f": 1.0}
    [version] = await documents.commit([Create(KEY, data)])
    reference = client.collection("pre-claims").document("one")
    assert (await reference.get(timeout=5)).to_dict() == data
    await documents.commit([Replace(KEY, {"n": 2}, version)])
    snapshot: Any = (await reference.get(timeout=5)).to_dict()
    assert len(snapshot.pop("_write")) == 8
    assert snapshot == {"n": 2}
    await documents.close()


@pytest.mark.emulator
async def test_the_store_reads_what_googles_own_client_wrote(
    firestore_emulator: str, project: str, client: AsyncClient
) -> None:
    documents = FirestoreDocuments(thin(firestore_emulator, project), SystemClock())
    data = {"n": 1, "when": datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=UTC), "raw": b"x", "map": {"f": [1.0, True]}}
    result = await client.collection("claims").document("one").set(data, timeout=5)
    document = await documents.get(KEY)
    assert document is not None
    assert document.data == data
    assert type(document.data["when"]) is datetime
    assert document.updated_at == result.update_time
    [queried] = await documents.query(Query("claims", [Filter("n", Operator.EQUAL, 1)]))
    assert queried.version == document.version
    await documents.commit([Replace(KEY, {}, document.version)])
    await documents.close()


@pytest.mark.emulator
async def test_a_value_that_no_adapter_writes_is_reported_and_not_guessed(
    firestore_emulator: str, project: str, client: AsyncClient
) -> None:
    documents = FirestoreDocuments(thin(firestore_emulator, project), SystemClock())
    await client.collection("claims").document("one").set({"where": GeoPoint(1, 2)}, timeout=5)
    with pytest.raises(StoreError, match="geo_point_value"):
        await documents.get(KEY)
    await documents.close()
