"""One asynchronous run, end to end: the real program, real processes, a real database, real tokens.

Not covered here: crashes and ordered faults (test_crashes), missing grants (test_grants), the command (test_up).
"""

from __future__ import annotations

from pathlib import Path

from tests.support.local import local_stack


async def test_a_run_goes_through_the_whole_chain_and_is_kept_over_a_restart(tmp_path: Path) -> None:
    async with local_stack(tmp_path) as running:
        accepted = await running.submit(run_id="first")
        record, events = await running.ended(accepted["run_id"])
        assert record["state"] == "succeeded", running.logs.text()
        assert record["result"] == "Hello Ada"
        assert [entry["state"] for entry in record["history"]] == ["queued", "dispatching", "running", "succeeded"]
        assert [event["sequence"] for event in events] == list(range(len(events)))
        assert {"text": "Hello Ada"} in [event["payload"] for event in events]
        await running.stack.pubsub.wait_idle(timeout=10)
        assert running.counts().pending == 0
    async with local_stack(tmp_path) as running:
        assert (await running.run("first"))["result"] == "Hello Ada"
        repeated = await running.submit(run_id="first")
        assert repeated["duplicate"] is True
        fresh, _ = await running.ended((await running.submit())["run_id"])
        assert fresh["state"] == "succeeded"


async def test_a_python_entry_point_runs_in_its_own_process_and_its_events_arrive_in_order(tmp_path: Path) -> None:
    async with local_stack(tmp_path) as running:
        accepted = await running.submit(engine="word-count", flow=None, input={"text": "one two two"})
        record, events = await running.ended(accepted["run_id"])
        assert record["state"] == "succeeded", running.logs.text()
        assert [event["sequence"] for event in events] == list(range(len(events)))


async def test_two_stacks_run_side_by_side(tmp_path: Path) -> None:
    async with local_stack(tmp_path / "one") as one, local_stack(tmp_path / "two") as two:
        assert one.stack.url != two.stack.url
        for running in (one, two):
            record, _ = await running.ended((await running.submit())["run_id"])
            assert record["state"] == "succeeded"


async def test_what_was_accepted_while_the_stack_went_down_is_worked_by_the_next_one(tmp_path: Path) -> None:
    async with local_stack(tmp_path) as running:
        await running.stack.pubsub.hold()
        for number in range(3):
            await running.submit(run_id=f"kept-{number}")
    async with local_stack(tmp_path) as running:
        for number in range(3):
            record, _ = await running.ended(f"kept-{number}")
            assert record["state"] == "succeeded"
            assert record["attempt"] == 1
