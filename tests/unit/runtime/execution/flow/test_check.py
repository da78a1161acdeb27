"""The check of a definition: everything that is wrong, each at its place, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.execution.flow import limits
from runtime.execution.flow.engine import check_flow
from tests.support.flow_bench import chain

SET = {"type": "set", "value": 1}


def places(spec: Any) -> list[str]:
    return [pointer for pointer, _ in check_flow(spec)]


def one(**node: Any) -> list[str]:
    """The faulty places of one node, below it."""
    return [pointer.removeprefix("/nodes/n0") for pointer in places(chain(node, flows={"f": chain(SET)}))]


@pytest.mark.parametrize("spec", [None, [], "x", 5])
def test_a_definition_is_an_object(spec: object) -> None:
    assert places(spec) == [""]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, ["/start", "/nodes"]),
        ({"start": "a", "nodes": {}}, ["/nodes"]),
        ({"start": "a", "nodes": []}, ["/nodes"]),
        ({"start": "b", "nodes": {"a": SET}}, ["/start"]),
        ({"start": None, "nodes": {"a": SET}}, ["/start"]),
        ({"start": ["a"], "nodes": {"a": SET}}, ["/start"]),
        ({"start": "a", "nodes": {"a": SET}, "extra": 1}, ["/extra"]),
        ({"start": "a", "nodes": {"a": SET}, "comment": 1}, ["/comment"]),
        ({"start": "a", "nodes": {"a": SET}, "flows": []}, ["/flows"]),
        ({"start": "a", "nodes": {"a": SET}, "flows": {"f": 1}}, ["/flows/f"]),
        ({"start": "a", "nodes": {"a": SET}, "flows": {"f": {**chain(SET), "flows": {}}}}, ["/flows/f/flows"]),
        ({"start": "a", "nodes": {"a": SET}, "flows": {"no name": chain(SET)}}, ["/flows/no name"]),
        ({"start": "a", "nodes": {"a": SET}, "output": "$.nodes.b.output"}, ["/output"]),
        ({"start": "a", "nodes": {"a": SET, "b": SET}}, ["/nodes/b"]),
        ({"start": "a/b~", "nodes": {"a/b~": SET}}, ["/nodes/a~1b~0"]),
        ({"start": "a", "nodes": {"a": 1}}, ["/nodes/a"]),
        ({"start": "a", "nodes": {"a": {}}}, ["/nodes/a/type"]),
        ({"start": "a", "nodes": {"a": {"type": "eval"}}}, ["/nodes/a/type"]),
        ({"start": "a", "nodes": {"a": {"type": ["set"]}}}, ["/nodes/a/type"]),
        ({"start": "a", "nodes": {"a": {**SET, "next": "b"}}}, ["/nodes/a/next"]),
        ({"start": "a", "nodes": {"a": {**SET, "next": 1}}}, ["/nodes/a/next"]),
        ({"start": "a", "nodes": {"a": {**SET, "on_error": "b"}}}, ["/nodes/a/on_error"]),
    ],
)
def test_what_is_wrong_with_a_graph_is_found_at_its_place(spec: object, found: list[str]) -> None:
    assert sorted(places(spec)) == sorted(found)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"type": "set"}, ["/value"]),
        ({"type": "set", "value": 1, "valeu": 2}, ["/valeu"]),
        ({"type": "set", "value": {"a": [1, "$.x"]}}, ["/value/a/1"]),
        ({**SET, "timeout_seconds": 0}, ["/timeout_seconds"]),
        ({**SET, "timeout_seconds": 3601}, ["/timeout_seconds"]),
        ({**SET, "timeout_seconds": True}, ["/timeout_seconds"]),
        ({**SET, "comment": "x" * 3000}, ["/comment"]),
        ({"type": "template", "template": 5}, ["/template"]),
        ({"type": "template", "template": "${x}"}, ["/template"]),
        ({"type": "branch"}, ["/cases"]),
        ({"type": "branch", "cases": []}, ["/cases"]),
        ({"type": "branch", "cases": [{}], "next": None}, ["/cases/0/next", "/cases/0/when", "/cases/0/when", "/next"]),
        ({"type": "branch", "cases": [5]}, ["/cases/0"]),
        ({"type": "branch", "cases": [{"when": {"eq": [1, 1]}, "next": "x"}], "else": "y"}, ["/cases/0/next", "/else"]),
        ({"type": "map", "over": []}, [""]),
        ({"type": "map", "over": [], "value": 1, "flow": "f"}, [""]),
        ({"type": "map", "over": [], "value": 1, "input": 1}, ["/input"]),
        ({"type": "map", "flow": "f"}, ["/over"]),
        ({"type": "map", "over": "$.item", "flow": "f"}, ["/over"]),
        ({"type": "map", "over": [], "flow": "g"}, ["/flow"]),
        ({"type": "map", "over": [], "flow": None}, ["/flow"]),
        ({"type": "map", "over": [], "flow": "f", "concurrency": 17}, ["/concurrency"]),
        ({"type": "map", "over": [], "flow": "f", "concurrency": 0}, ["/concurrency"]),
        ({"type": "http"}, ["/url"]),
        ({"type": "http", "url": 5}, ["/url"]),
        ({"type": "http", "url": "x", "method": "get"}, ["/method"]),
        ({"type": "http", "url": "x", "headers": []}, ["/headers"]),
        ({"type": "http", "url": "x", "headers": {"Host": "y"}}, ["/headers/Host"]),
        ({"type": "http", "url": "x", "headers": {"Metadata-Flavor": "Google"}}, ["/headers/Metadata-Flavor"]),
        ({"type": "http", "url": "x", "headers": {"a b": "y"}}, ["/headers/a b"]),
        ({"type": "http", "url": "x", "headers": {f"h{i}": "y" for i in range(51)}}, ["/headers"]),
        ({"type": "http", "url": "x", "json": 1}, ["/json"]),
        ({"type": "http", "url": "x", "response": "xml"}, ["/response"]),
        ({"type": "http", "url": "x", "accept_errors": "yes"}, ["/accept_errors"]),
        ({"type": "emit"}, ["/event"]),
        ({"type": "emit", "event": "Tick"}, ["/event"]),
        ({"type": "emit", "event": "tick\ndata: x"}, ["/event"]),
        ({"type": "emit", "event": "completed"}, ["/event"]),
        ({"type": "sleep"}, ["/seconds"]),
        ({"type": "sleep", "seconds": -1}, ["/seconds"]),
        ({"type": "sleep", "seconds": "5"}, ["/seconds"]),
        ({"type": "call"}, ["/flow"]),
        ({"type": "call", "flow": "g"}, ["/flow"]),
        ({"type": "fail"}, ["/message"]),
        ({"type": "fail", "message": 5}, ["/message"]),
        ({"type": "fail", "message": "x", "status_code": 200}, ["/status_code"]),
        ({"type": "fail", "message": "x", "next": None, "on_error": None}, ["/next", "/on_error"]),
    ],
)
def test_what_is_wrong_with_a_node_is_found_at_its_place(node: dict[str, Any], found: list[str]) -> None:
    assert sorted(set(one(**node))) == sorted(set(found))


def test_all_faults_are_found_at_once() -> None:
    spec = {
        "start": "nowhere",
        "nodes": {"a": {"type": "set"}, "b": {"type": "sleep", "seconds": "soon", "next": "c"}},
        "flows": {"f": chain({"type": "emit", "event": "E"})},
    }
    assert sorted(places(spec)) == [
        "/flows/f/nodes/n0/event", "/nodes/a/value", "/nodes/b/next", "/nodes/b/seconds", "/start",
    ]  # fmt: skip


def test_faults_say_what_would_pass() -> None:
    faults = dict(check_flow({"start": "a", "nodes": {"a": {"type": "sett"}}}))
    assert "set, template, branch, map, http, emit, sleep, call, fail" in faults["/nodes/a/type"]


def test_only_so_many_faults_are_reported() -> None:
    nodes = {f"n{i}": {"type": "nothing"} for i in range(400)}
    assert len(check_flow({"start": "n0", "nodes": nodes})) == limits.FAULTS


def test_a_definition_has_a_largest_size_depth_and_number_of_nodes() -> None:
    assert places(chain({"type": "set", "value": "x" * limits.DEFINITION_BYTES})) == [""]
    deep: Any = 1
    for _ in range(limits.DEFINITION_DEPTH):
        deep = [deep]
    assert places(chain({"type": "set", "value": deep})) == []
    assert places(chain({"type": "set", "value": [deep]})) != []
    assert places(chain(*[SET] * limits.NODES)) == []
    assert places(chain(*[SET] * limits.NODES, flows={"f": chain(SET)})) == ["/nodes"]
    assert places(chain(SET, flows={f"f{i}": chain(SET) for i in range(limits.FLOWS + 1)})) == ["/flows"]


def test_a_sub_flow_sees_only_its_own_nodes() -> None:
    flows = {"f": chain({"type": "set", "value": "$.nodes.outer.output"})}
    spec = {"start": "outer", "nodes": {"outer": {"type": "call", "flow": "f"}}, "flows": flows}
    assert places(spec) == ["/flows/f/nodes/n0/value"]


def test_the_definitions_that_people_start_from_have_no_faults() -> None:
    spec = {
        "comment": "everything at once",
        "start": "a",
        "nodes": {
            "a": {"type": "set", "value": {"x": "$.input"}, "next": "b", "comment": "first"},
            "b": {"type": "template", "template": "Hello ${nodes.a.output.x}", "next": "c", "timeout_seconds": None},
            "c": {
                "type": "branch",
                "cases": [{"when": {"eq": ["$.input", 1]}, "next": "d", "comment": "why"}],
                "else": None,
            },
            "d": {"type": "map", "over": [1], "flow": "f", "input": ["$.item", "$.index"], "next": "e"},
            "e": {"type": "http", "method": "POST", "url": "https://x.example", "json": {}, "on_error": "g"},
            "g": {"type": "emit", "event": "log", "next": "h"},
            "h": {"type": "sleep", "seconds": "$.input", "next": "i"},
            "i": {"type": "call", "flow": "f", "next": "j"},
            "j": {"type": "fail", "message": "$.error.message"},
        },
        "output": "$.nodes.i.output",
        "flows": {"f": chain(SET)},
    }
    assert check_flow(spec) == []
