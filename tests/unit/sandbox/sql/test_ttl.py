"""Sweeps of declared TTL policies. The deletion itself is the adapter's, and tested there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import StoreUnavailable
from sandbox.sql.ttl import TtlSweeper
from sandbox.world import FIELD, Resource, World


class RecordingStore:
    def __init__(self) -> None:
        self.calls: list[tuple[list[str], str]] = []
        self.failures = 0

    async def delete_expired(self, collections: Sequence[str], field: str, *, timeout: float = 60) -> int:
        self.calls.append((list(collections), field))
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("down", unclear=False)
        return len(collections)


def world(*collections: str) -> World:
    made = World("p", "123", "europe-west1", Path("/nonexistent"))
    for name in collections:
        inputs = {"collection": name, "field": "expires_at_ts", "ttlConfig": {}, "database": "(default)"}
        made.put(Resource(FIELD, f"(default)/{name}/expires_at_ts", f"urn:{name}", inputs, {}))
    return made


async def test_collections_with_a_policy_are_swept_and_others_are_not() -> None:
    declared = world("runs", "claims")
    untouched = {"collection": "api_keys", "field": "expires_at_ts", "indexConfig": {}}
    declared.put(Resource(FIELD, "(default)/api_keys/expires_at_ts", "urn:k", untouched, {}))
    store = RecordingStore()
    assert await TtlSweeper(declared, store, ManualClock()).sweep() == 2
    assert store.calls == [(["claims", "runs"], "expires_at_ts")]


async def test_sweeps_repeat_and_see_policies_that_are_declared_later() -> None:
    clock, store, declared = ManualClock(), RecordingStore(), world("runs")
    sweeper = TtlSweeper(declared, store, clock, period=60)
    await sweeper.start()
    await clock.advance(59)
    assert len(store.calls) == 1
    for row in world("runs", "claims"):
        declared.put(row)
    await clock.advance(1)
    assert store.calls[-1] == (["claims", "runs"], "expires_at_ts")
    await sweeper.stop()
    await clock.advance(600)
    assert len(store.calls) == 2, "a stopped sweeper swept"


async def test_a_store_that_fails_is_tried_again_at_the_next_sweep() -> None:
    clock, store = ManualClock(), RecordingStore()
    store.failures = 1
    sweeper = TtlSweeper(world("runs"), store, clock, period=60)
    with capture_logs() as logs:
        await sweeper.start()
        await clock.advance(60)
    assert [row["event"] for row in logs] == ["ttl_sweep_failed", "documents_expired"]
    await sweeper.stop()
