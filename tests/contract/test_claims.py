"""One suite of claims for every store: what decides between deliveries is the store's, and is asked of each one.

Real time, so only what is decided within seconds; parking, heartbeats and everything longer is in the unit tests, on a
clock that is moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import SystemClock
from runtime.contract.dead_letter import message_key
from runtime.contract.names import TTL_FIELD
from runtime.contract.outcomes import Outcome
from runtime.contract.states import FailureClass
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Delete, Documents, Key, Value
from runtime.server import Lifecycle
from runtime.worker.claim import Claims
from runtime.worker.claim_record import ClaimState
from runtime.worker.guard import ClaimTools, Guard, Settlement
from tests.support.claims import SUBSCRIPTION, settings
from tests.support.faulty_documents import Fault, FaultyDocuments
from tests.support.waiting import until

pytestmark = pytest.mark.parametrize(
    "backend", ["memory", "postgres", pytest.param("firestore", marks=pytest.mark.emulator)], indirect=True
)

NACKED = {"owner_in_flight", "claim_store_unavailable"}
"""What becomes of those who lose a race: beaten to it, or one of too many that try at once."""
CLOCK = SystemClock()
KEY = Key("pubsub-claims", message_key(SUBSCRIPTION, "1001"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


class WrongClock(SystemClock):
    """The clock of a machine that is set an hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


def claims(documents: Documents, *, clock: SystemClock = CLOCK, **changes: Any) -> Claims:
    """The claims of one more process."""
    tools = ClaimTools(documents, settings(**changes), clock, Metrics(), Lifecycle(clock))
    return Claims(tools, owner="rev-1/x")


async def acquire(of: Claims, *, within: float = 0) -> Guard | Outcome:
    return await of.acquire("1001", None, deadline=CLOCK.monotonic() + within)


async def own(documents: Documents, **changes: Any) -> Guard:
    guard = await acquire(claims(documents, **changes))
    assert isinstance(guard, Guard), f"expected to own the claim, got {guard}"
    return guard


async def refused(documents: Documents) -> str:
    answer = await acquire(claims(documents))
    assert isinstance(answer, Outcome), "expected an answer, got the claim"
    return answer.code


async def fields(documents: Documents) -> dict[str, Value]:
    document = await documents.get(KEY)
    return {} if document is None else dict(document.data)


async def test_of_many_that_ask_at_once_one_owns_and_the_rest_are_told_so(documents: Documents) -> None:
    answers = await asyncio.gather(*(acquire(claims(documents)) for _ in range(8)))
    owners = [answer for answer in answers if isinstance(answer, Guard)]
    assert len(owners) == 1
    assert {answer.code for answer in answers if isinstance(answer, Outcome)} <= NACKED
    assert (await fields(documents))["token"] == owners[0].record.token


async def test_of_many_that_take_a_released_claim_at_once_one_owns_it(documents: Documents) -> None:
    """BR-39"""
    async with await own(documents) as guard:
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
    answers = await asyncio.gather(*(acquire(claims(documents)) for _ in range(8)))
    owners = [answer for answer in answers if isinstance(answer, Guard)]
    assert [owner.record.attempts for owner in owners] == [2]
    assert {answer.code for answer in answers if isinstance(answer, Outcome)} <= NACKED


async def test_counters_reasons_and_the_time_to_live_survive_every_release(documents: Documents) -> None:
    for excused in (False, True, False):
        async with await own(documents) as guard:
            before = await fields(documents)
            settled = await guard.settle(
                ClaimState.RELEASED,
                "execution_failed",
                within=8,
                excused=excused,
                failure_class=FailureClass.BACKPRESSURE,
            )
            assert settled is Settlement.DONE
        after = await fields(documents)
        assert (after["state"], after["outcome_code"], after["failure_class"]) == (
            "released", "execution_failed", "backpressure",
        )  # fmt: skip
        assert str(after[TTL_FIELD]) > str(before[TTL_FIELD]), "written anew by every write"
    last = await fields(documents)
    assert (last["attempts"], last["excused"]) == (3, 1)


@pytest.mark.parametrize(
    ("state", "code", "answer"),
    [(ClaimState.COMPLETED, "", "duplicate_settled"), (ClaimState.DEAD_LETTERED, "x", "already_dead_lettered")],
)
async def test_what_is_settled_for_good_is_never_owned_again(
    documents: Documents, state: ClaimState, code: str, answer: str
) -> None:
    async with await own(documents) as guard:
        await guard.settle(state, code, within=8)
    assert await asyncio.gather(*(refused(documents) for _ in range(3))) == [answer] * 3
    assert (await fields(documents))["state"] == str(state)


async def test_a_claim_is_stale_by_the_stores_own_time(documents: Documents) -> None:
    """BR-36: the clock of the one is an hour ahead of that of the other, which matters to neither."""
    dead = await own(documents)
    ahead = await acquire(claims(documents, clock=WrongClock()))
    assert isinstance(ahead, Outcome), "a minute-old claim at most, whatever its reader's clock says"
    impatient = claims(documents, stale_after=timedelta(seconds=1))
    async with asyncio.timeout(60):
        while not isinstance(taken := await acquire(impatient), Guard):  # noqa: ASYNC110 - the store's time passes
            await asyncio.sleep(0.05)
    assert taken.record.attempts == 2
    assert taken.record.token != dead.record.token


async def test_a_replaced_owner_settles_nothing(documents: Documents) -> None:
    """BR-34"""
    first = await own(documents)
    second = await own(documents, stale_after=timedelta(0))
    second._tools = first._tools  # whose stale_after is the usual one
    async with first:
        assert await first.settle(ClaimState.COMPLETED, "", within=8) is Settlement.LOST
    async with second:
        assert (await fields(documents))["token"] == second.record.token
        assert await second.settle(ClaimState.COMPLETED, "", within=8) is Settlement.DONE


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST])
async def test_a_claim_whose_answer_was_lost_is_recognised_or_made_again(documents: Documents, fault: Fault) -> None:
    store = FaultyDocuments(documents)
    store.at(_0=fault)
    guard = await acquire(claims(store), within=60)
    assert isinstance(guard, Guard)
    assert guard.record.attempts == 1
    async with guard:
        store.at(**{f"_{len(store.calls)}": fault})
        assert await guard.settle(ClaimState.COMPLETED, "", within=30) is Settlement.DONE
    assert await refused(documents) == "duplicate_settled"


async def test_a_heartbeat_keeps_the_claim_young_and_its_owner(documents: Documents) -> None:
    async with await own(documents, heartbeat=timedelta(seconds=0.05), stale_after=timedelta(seconds=30)) as guard:
        first = (await fields(documents))["heartbeat_at_ms"]
        await until(lambda: guard.record.heartbeat_at_ms != first)
        document = await documents.get(KEY)
        assert document is not None
        assert document.age < timedelta(seconds=20)
        assert not guard.lost.is_set()
        assert await guard.settle(ClaimState.COMPLETED, "", within=8) is Settlement.DONE


async def test_a_claim_that_its_time_to_live_removed_is_lost_and_made_anew(documents: Documents) -> None:
    gone = await own(documents)
    document = await documents.get(KEY)
    assert document is not None
    await documents.commit([Delete(KEY, document.version)])
    async with gone:
        assert await gone.settle(ClaimState.COMPLETED, "", within=8) is Settlement.LOST
    assert await documents.get(KEY) is None, "a claim that is gone is not written back"
    assert (await own(documents)).record.attempts == 1
