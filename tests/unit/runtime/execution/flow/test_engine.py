"""What flows do: each kind of node, failures, limits, deadlines, and the events that tell of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.contract.limits import EVENT_BYTES
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.flow import limits
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.ports.engine import RunResult
from tests.support.flow_bench import FlowBench, chain, value_flow

SET = {"type": "set", "value": 1}


async def test_the_output_is_that_of_the_last_node_or_what_output_says() -> None:
    assert (await FlowBench().run(chain(SET, {"type": "set", "value": 2}))).output == 2
    assert (await FlowBench().run(chain(SET, SET, output={"first": "$.nodes.n0.output"}))).output == {"first": 1}
    assert (await FlowBench().run(chain(SET, output=None))).output is None


async def test_a_template_is_always_a_string() -> None:
    assert (await FlowBench().run(chain({"type": "template", "template": "$.input"}), "x")).output == "$.input"
    assert (await FlowBench().run(chain({"type": "template", "template": "${input}"}), 5)).output == "5"


async def test_a_branch_takes_the_first_case_that_holds_else_the_other_way_else_ends() -> None:
    spec = {
        "start": "if",
        "nodes": {
            "if": {
                "type": "branch",
                "cases": [
                    {"when": {"gt": ["$.input", 10]}, "next": "big"},
                    {"when": {"gt": ["$.input", 5]}, "next": None},
                ],
                "else": "small",
            },
            "big": {"type": "set", "value": "big"},
            "small": {"type": "set", "value": "small"},
        },
    }  # fmt: skip
    assert [(await FlowBench().run(spec, n)).output for n in (11, 6, 1)] == ["big", None, "small"]


async def test_a_map_keeps_the_order_of_its_items_whatever_order_they_end_in() -> None:
    spec = chain(
        {"type": "map", "over": "$.input", "flow": "one", "concurrency": 3},
        flows={"one": chain({"type": "sleep", "seconds": "$.input"}, {"type": "set", "value": "slept ${input}"})},
    )
    bench = FlowBench()
    assert (await bench.run(spec, [3, 2, 1, 0])).output == ["slept 3", "slept 2", "slept 1", "slept 0"]
    assert bench.clock.monotonic() == 3, "three at a time: 3 beside 2, beside 1 and 0"


async def test_a_map_gives_each_item_its_place_and_what_is_around_it() -> None:
    spec = chain(
        {"type": "set", "value": "!"},
        {"type": "map", "over": "$.input", "value": ["$.item", "$.index", "$.nodes.n0.output"]},
    )
    assert (await FlowBench().run(spec, ["a", "b"])).output == [["a", 0, "!"], ["b", 1, "!"]]
    assert (await FlowBench().run(spec, [])).output == []


async def test_the_first_failing_item_stops_the_others_and_names_its_node() -> None:
    flows = {
        "one": {
            "start": "if",
            "nodes": {
                "if": {
                    "type": "branch",
                    "cases": [{"when": {"eq": ["$.input", 1]}, "next": "no"}],
                    "else": "wait",
                },
                "wait": {"type": "sleep", "seconds": 1000},
                "no": {"type": "fail", "message": "item ${input}", "status_code": 409},
            },
        }
    }
    spec = chain({"type": "map", "over": "$.input", "flow": "one", "concurrency": 4}, flows=flows)
    bench = FlowBench()
    result = await bench.run(spec, [0, 1, 2])
    assert (result.status_code, result.error) == (409, "node 'n0[1]/no': item 1")
    assert bench.clock.monotonic() == 0


async def test_a_call_runs_a_sub_flow_with_an_input_of_its_own() -> None:
    spec = chain(
        {"type": "call", "flow": "greet", "input": {"who": "$.input.name"}},
        flows={"greet": chain({"type": "template", "template": "Hello ${input.who}"})},
    )
    assert (await FlowBench().run(spec, {"name": "Ada"})).output == "Hello Ada"


async def test_a_flow_that_calls_itself_ends_at_the_limit_of_depth() -> None:
    spec = chain(
        {"type": "call", "flow": "again", "on_error": "n1"},
        SET,
        flows={"again": chain({"type": "call", "flow": "again"})},
    )
    result = await FlowBench().run(spec)
    assert "does 'again' call itself?" in (result.error or "")
    assert result.status is ProgressStatus.FAILED, "a limit cannot be caught"


async def test_a_loop_that_never_ends_is_ended_by_the_limit_of_steps_and_lets_others_work() -> None:
    spec = {
        "start": "a",
        "nodes": {
            "a": {"type": "branch", "cases": [{"when": {"exists": "$.input.never"}, "next": None}], "else": "b"},
            "b": {**SET, "next": "a"},
        },
    }  # fmt: skip
    turns = 0

    async def heart() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beat = asyncio.create_task(heart())
    result = await FlowBench().run(spec)
    beat.cancel()
    await asyncio.wait([beat])
    assert f"more than {limits.STEPS} steps" in (result.error or "")
    assert turns >= limits.STEPS / limits.YIELD_WEIGHT, "the loop had its turn again and again"


async def test_a_loop_may_wait_for_something_to_become_true() -> None:
    spec = {
        "start": "poll",
        "nodes": {
            "poll": {"type": "http", "url": "https://api.example/state", "next": "if"},
            "if": {
                "type": "branch",
                "cases": [{"when": {"eq": ["$.nodes.poll.output.body.ready", True]}, "next": None}],
                "else": "wait",
            },
            "wait": {"type": "sleep", "seconds": 5, "next": "poll"},
        },
        "output": "$.nodes.poll.output.status",
    }
    bench = FlowBench()

    async def answers(_request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, {}, b'{"ready": %s}' % (b"true" if len(bench.requests) == 3 else b"false"))

    bench.answers = answers
    result = await bench.run(spec)
    assert (result.output, bench.clock.monotonic()) == (200, 10)


async def test_a_failure_ends_the_run_with_its_message_and_status() -> None:
    result = await FlowBench().run(chain({"type": "fail", "message": "no ${input}", "status_code": 404}), "such thing")
    assert result == RunResult(
        ProgressStatus.FAILED,
        status_code=404,
        error="node 'n0': no such thing",
        failure_class=FailureClass.FRAMEWORK_ERROR,
    )


async def test_an_error_that_is_caught_is_there_for_the_nodes_that_follow() -> None:
    spec = {
        "start": "call",
        "nodes": {
            "call": {"type": "call", "flow": "bad", "on_error": "caught"},
            "caught": {"type": "set", "value": "$.error"},
        },
        "flows": {"bad": chain({"type": "fail", "message": "no", "status_code": 418})},
    }
    bench = FlowBench()
    result = await bench.run(spec)
    assert result.output == {"node": "call/n0", "message": "no", "status": 418}
    assert [(end["node"], end["status"]) for end in bench.of("node_end")] == [
        ("call/n0", "error"), ("call", "error"), ("caught", "ok"),
    ]  # fmt: skip


async def test_a_node_has_a_time_limit_of_its_own_which_can_be_caught() -> None:
    slow = {"type": "sleep", "seconds": 100, "timeout_seconds": 2}
    bench = FlowBench()
    result = await bench.run(chain(slow))
    assert (result.status_code, result.error) == (504, "node 'n0': it took longer than 2 s")
    spec = {"start": "s", "nodes": {"s": {**slow, "on_error": "t"}, "t": {"type": "set", "value": "late"}}}
    assert (await FlowBench().run(spec)).output == "late"


async def test_the_deadline_of_the_run_ends_it_as_timed_out() -> None:
    bench = FlowBench()
    result = await bench.run(chain({"type": "sleep", "seconds": 100, "on_error": "n1"}, SET), seconds=7)
    assert (result.status, result.failure_class) == (ProgressStatus.TIMEOUT, FailureClass.FRAMEWORK_TIMEOUT)
    assert bench.clock.monotonic() == pytest.approx(7, abs=0.5)


async def test_a_run_that_is_cancelled_stops_at_once() -> None:
    bench = FlowBench()
    task = bench.start(chain({"type": "sleep", "seconds": 100}))
    await bench.clock.advance(1)
    bench.cancelled.set()
    assert (await task).status is ProgressStatus.CANCELLED
    assert (await bench.run(value_flow(1))).status is ProgressStatus.CANCELLED, "before the first node too"
    assert bench.of("node_start") == [{"node": "n0", "type": "sleep"}]


async def test_a_task_that_is_cancelled_leaves_nothing_running() -> None:
    spec = chain(
        {"type": "map", "over": [1, 2, 3], "flow": "one", "concurrency": 3},
        flows={"one": chain({"type": "sleep", "seconds": 100})},
    )
    bench = FlowBench()
    task = bench.start(spec)
    await bench.clock.advance(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_events_tell_of_every_node_and_of_the_output() -> None:
    spec = chain(
        {"type": "emit", "event": "greeting", "payload": {"text": "Hi ${input}"}},
        {"type": "map", "over": [1], "flow": "one"},
        flows={"one": chain({"type": "sleep", "seconds": 0.25})},
    )
    bench = FlowBench()
    await bench.run(spec, "Ada")
    ok = {"status": "ok"}
    assert bench.events == [
        ("node_start", {"node": "n0", "type": "emit"}),
        ("greeting", {"text": "Hi Ada"}),
        ("node_end", {"node": "n0", **ok, "duration_ms": 0}),
        ("node_start", {"node": "n1", "type": "map"}),
        ("node_start", {"node": "n1[0]/n0", "type": "sleep"}),
        ("node_end", {"node": "n1[0]/n0", **ok, "duration_ms": 250}),
        ("node_end", {"node": "n1", **ok, "duration_ms": 250}),
        ("output", {"output": [None], "bytes": 6}),
    ]


async def test_an_event_that_is_too_large_fails_its_node() -> None:
    spec = chain(
        {"type": "emit", "event": "big", "payload": "$.input", "on_error": "n1"},
        {"type": "set", "value": "$.error.message"},
    )
    for text in ("x" * EVENT_BYTES, "\x00" * (EVENT_BYTES // 4)):
        bench = FlowBench()
        result = await bench.run(spec, text)
        assert "bytes" in str(result.output)
        assert bench.of("big") == []


async def test_an_output_too_large_for_an_event_is_still_the_output() -> None:
    bench = FlowBench()
    result = await bench.run(value_flow("$.input"), "x" * EVENT_BYTES)
    assert result.output == "x" * EVENT_BYTES
    assert bench.of("output") == [{"omitted": True}]


@pytest.mark.parametrize(
    ("value", "status", "code"),
    [
        ({"status_code": 503, "error": "busy"}, ProgressStatus.FAILED, 503),
        ({"status_code": 400}, ProgressStatus.FAILED, 400),
        ({"error": "no"}, ProgressStatus.FAILED, None),
        ({"status_code": 201, "output": 7}, ProgressStatus.COMPLETED, 201),
    ],
)
async def test_an_output_with_a_status_of_its_own_decides_how_the_run_ended(
    value: dict[str, Any], status: ProgressStatus, code: int | None
) -> None:
    result = await FlowBench().run(value_flow(value))
    assert (result.status, result.status_code, result.output) == (status, code, value.get("output"))


async def test_values_that_only_look_small_are_found_out() -> None:
    """A value that refers to a value that refers to a value: tiny in memory, without end on the wire."""
    doubled = [{"type": "set", "value": ["$.input"] * 10}]
    doubled += [{"type": "set", "value": [f"$.nodes.n{i}.output"] * 10} for i in range(12)]
    for spec in (chain(*doubled), chain({"type": "emit", "event": "e", "payload": ["$.input"] * 9000})):
        result = await FlowBench().run(spec, "x" * 10_000)
        assert "larger than" in (result.error or "")


async def test_a_run_keeps_only_so_much_at_one_time() -> None:
    big = {"type": "set", "value": "$.input"}
    result = await FlowBench().run(chain(*[big] * 20), "x" * 1_000_000)
    assert f"more than {limits.STATE_BYTES} bytes" in (result.error or "")
    loop = {
        "start": "a",
        "nodes": {
            "a": {**big, "next": "b"},
            "b": {"type": "branch", "cases": [{"when": {"exists": "$.input.x"}, "next": None}], "else": "c"},
            "c": {"type": "sleep", "seconds": 10, "next": "a"},
        },
    }
    late = await FlowBench().run(loop, "x" * 1_000_000, seconds=1000)
    assert late.status is ProgressStatus.TIMEOUT, "a value that is replaced is kept no longer"


async def test_a_map_takes_only_so_many_items() -> None:
    spec = chain({"type": "map", "over": "$.input", "value": "$.item"})
    assert (await FlowBench().run(spec, list(range(limits.MAP_ITEMS)))).error is None
    assert "at most" in str((await FlowBench().run(spec, list(range(limits.MAP_ITEMS + 1)))).error)


@pytest.mark.parametrize("over", [None, "text", {"a": 1}, 5])
async def test_a_map_over_anything_but_a_list_fails(over: object) -> None:
    result = await FlowBench().run(chain({"type": "map", "over": "$.input", "value": 1}), over)
    assert "a map goes over a list" in (result.error or "")


@pytest.mark.parametrize("seconds", [None, "5", -1, 3601, True])
async def test_a_sleep_of_anything_but_seconds_fails(seconds: object) -> None:
    result = await FlowBench().run(chain({"type": "sleep", "seconds": "$.input"}), seconds)
    assert "`seconds`" in (result.error or "")


async def test_a_faulty_definition_does_not_run() -> None:
    bench = FlowBench()
    result = await bench.run({"start": "a", "nodes": {"a": {"type": "nothing"}}})
    assert result.status is ProgressStatus.FAILED
    assert "/nodes/a/type" in (result.error or "")
    assert bench.events == []


async def test_two_runs_of_one_flow_emit_the_same_events() -> None:
    spec = chain(
        {"type": "map", "over": "$.input", "flow": "one", "concurrency": 8},
        flows={"one": chain({"type": "sleep", "seconds": "$.input"}, {"type": "set", "value": "$.input"})},
    )
    first, second = FlowBench(), FlowBench()
    value = [0.5, 0.1, 0.3, 0, 0, 0.2, 0.4, 0.1, 0.1]
    assert await first.run(spec, value) == await second.run(spec, value)
    assert first.events == second.events
