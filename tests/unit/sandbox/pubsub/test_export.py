"""The export loop: what is written to a bucket, when, and what must not be acknowledged."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sandbox.pubsub.export import ExportLoop, ExportTools
from sandbox.pubsub.state import Feed
from sandbox.storage.objects import ObjectFiles
from sandbox.world import World
from tests.support.avro_files import read_avro
from tests.support.brokers import Bench
from tests.support.waiting import until
from tests.support.worlds import declare, empty_world, subscription, topic

DEAD = "projects/p-test/topics/dead"
NAME = "projects/p-test/subscriptions/sink"
CREATE, READ = "roles/storage.objectCreator", "roles/storage.legacyBucketReader"
CONFIG = {
    "bucket": "letters",
    "filenamePrefix": "execution/",
    "filenameSuffix": ".avro",
    "filenameDatetimeFormat": "YYYY-MM-DD/hh_mm_ssZ",
    "maxDuration": "60s",
    "maxBytes": 1000,
    "avroConfig": {"writeMetadata": True},
}


def bucket_grant(world: World, bucket: str, role: str, member: str) -> None:
    type_ = "gcp:storage/bucketIAMMember:BucketIAMMember"
    declare(world, type_, f"{bucket} {role} {member}", bucket=bucket, role=role, member=member)


@dataclass(slots=True)
class Rig:
    """One exporting subscription at work."""

    bench: Bench
    feed: Feed
    folder: Path

    async def published(self, *texts: str, **draft: Any) -> None:
        """Publishes messages and lets everything come to rest that needs no time."""
        for text in texts:
            self.bench.publish(DEAD, text, **draft)
        await self.bench.clock.advance(0)

    @property
    def objects(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    async def acknowledged(self, messages: int, seconds: float = 0) -> list[Path]:
        """Moves the clock, and returns the files once the thread that writes has come so far."""
        await self.bench.clock.advance(seconds)
        await until(lambda: self.feed.counts().acknowledged == messages)
        return self.objects


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = empty_world(tmp_path)
    topic(made, "dead")
    for role in (CREATE, READ):
        bucket_grant(made, "letters", role, made.agent("gcp-sa-pubsub"))
    return made


@asynccontextmanager
async def exporting(world: World, **config: Any) -> AsyncIterator[Rig]:
    """Runs the export loop of a subscription; the open file is closed at the end."""
    subscription(world, "sink", DEAD, cloudStorageConfig={**CONFIG, **config})
    bench = Bench(world)
    feed = bench.broker.feed(NAME)
    tools = ExportTools(
        broker=bench.broker,
        notes=bench.notes,
        files=ObjectFiles(world.state_dir),
        grants=bench.grants,
        agent=world.agent("gcp-sa-pubsub"),
        clock=bench.clock,
    )
    loop = ExportLoop(feed, tools)
    running = asyncio.create_task(loop.run())
    try:
        yield Rig(bench, feed, world.state_dir / "storage" / "letters")
    finally:
        loop.end()
        await running


async def test_messages_wait_for_each_other_and_are_acknowledged_when_their_file_is_there(world: World) -> None:
    async with exporting(world) as rig:
        await rig.published("one", "two", attributes={"CloudPubSubDeadLetterSourceSubscription": "s"})
        await rig.bench.clock.advance(59)
        assert rig.objects == []
        assert rig.feed.counts().acknowledged == 0

        (path,) = await rig.acknowledged(2, 1)
        name = path.relative_to(rig.folder).as_posix()
        assert re.fullmatch(r"execution/2026-01-01/00_01_00Z_[0-9a-f-]{36}\.avro", name), name
        _, records = read_avro(path.read_bytes())
        assert [record["data"] for record in records] == [b"one", b"two"]
        assert {record["attributes"]["CloudPubSubDeadLetterSourceSubscription"] for record in records} == {"s"}
        assert rig.feed.counts().acknowledged == 2


async def test_a_file_that_is_large_enough_is_closed_at_once(world: World) -> None:
    async with exporting(world) as rig:
        await rig.published("x" * 1000)
        await rig.published("small")
        assert len(await rig.acknowledged(1)) == 1
        assert rig.feed.counts().in_flight == 1


async def test_text_files_have_a_line_for_each_message(world: World) -> None:
    async with exporting(world, avroConfig=None, textConfig={}, filenameSuffix="") as rig:
        await rig.published("one", "two")
        (path,) = await rig.acknowledged(2, 60)
        assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(("held", "missing"), [(READ, CREATE), (CREATE, READ)])
async def test_without_either_grant_nothing_is_written_and_a_warning_names_it(
    tmp_path: Path, held: str, missing: str
) -> None:
    world = empty_world(tmp_path)
    topic(world, "dead")
    agent = world.agent("gcp-sa-pubsub")
    bucket_grant(world, "letters", held, agent)
    with capture_logs() as logs:
        async with exporting(world) as rig:
            await rig.published("one")
            await rig.bench.clock.advance(120)
            assert rig.objects == []
            assert rig.feed.counts().pending == 1
            assert {line["grant"] for line in logs if line["event"] == "grant_missing"} == {
                f"missing grant: {missing} on bucket letters for {agent}"
            }
            assert rig.bench.notes.records == [], "no delivery was counted"

            bucket_grant(world, "letters", missing, agent)
            await rig.bench.clock.advance(1)
            assert rig.feed.counts().in_flight == 1
            assert len(await rig.acknowledged(1, 60)) == 1


async def test_what_cannot_be_written_comes_again(world: World) -> None:
    blocked = world.state_dir / "storage"
    blocked.write_text("in the way")
    with capture_logs() as logs:
        async with exporting(world) as rig:
            await rig.published("one")
            await rig.bench.clock.advance(60)
            await until(lambda: any(line["event"] == "export_failed" for line in logs))
            assert rig.feed.counts().acknowledged == 0

            blocked.unlink()
            await rig.bench.clock.advance(2)
            assert len(await rig.acknowledged(1, 60)) == 1


async def test_the_open_file_is_closed_when_the_service_ends(world: World) -> None:
    async with exporting(world) as rig:
        await rig.published("one")
        assert rig.objects == []
    assert len(rig.objects) == 1
    assert rig.feed.counts().acknowledged == 1
