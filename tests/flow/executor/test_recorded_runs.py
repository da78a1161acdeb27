"""Runs of many events through the API and the executor: the record has what the reader had."""

from __future__ import annotations

from tests.support.served_pair import served_pair

MANY = {"ticks": 1500, "size": 50}
"""More events than reports have room for."""


async def test_a_healthy_runs_record_has_all_of_its_events() -> None:
    """BR-74."""
    async with served_pair() as (api, executor):
        assert (await api.run("waited", input=MANY))[0] == 200
        first = await api.stream("streamed", input=MANY)
        again = await api.stream("streamed", input=MANY)
        for run_id in ("waited", "streamed"):
            assert (await api.record(run_id))["next_sequence"] == 1502, "the executor says two of them"
        for seen in (first, again):
            ticks = [event["payload"]["n"] for event in seen if event["event_type"] == "tick"]
            assert ticks == list(range(1500))
            assert "events_dropped" not in seen[-1]["payload"]
        assert executor.count("callback_drops_total") == 0
