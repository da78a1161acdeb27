"""What holds for every definition: no JSON breaks the check, and whatever passes it ends inside its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.flow import budget, limits
from runtime.execution.flow.engine import check_flow
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.execution.values import VALUE_DEPTH, encode
from tests.support.flow_bench import FlowBench

_WORDS = st.sampled_from(
    ["start", "nodes", "flows", "output", "type", "next", "on_error", "value", "set", "map", "branch", "http", "emit",
     "cases", "when", "else", "over", "flow", "input", "a", "b", "f", "eq", "and", "not", "exists", "url", "headers",
     "json", "event", "payload", "seconds", "sleep", "call", "fail", "message", "template", "$.input",
     "$.nodes.a.output", "$.item", "${input.a}", "${", "$.", "timeout_seconds", "concurrency", "status_code"]
)  # fmt: skip
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | _WORDS
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS | st.text(max_size=4), inner, max_size=6),
    max_leaves=12,
)
_MEMBERS = (
    "value", "template", "cases", "else", "over", "flow", "input", "concurrency", "url", "method", "headers", "json",
    "event", "payload", "seconds", "message", "status_code", "next", "on_error", "timeout_seconds",
)  # fmt: skip
_NODE_LIKE = st.fixed_dictionaries(
    {"type": st.sampled_from(["set", "template", "branch", "map", "http", "emit", "sleep", "call", "fail"])},
    optional=dict.fromkeys(_MEMBERS, _JSON),
)
_FLOW_LIKE = st.fixed_dictionaries(
    {"start": st.just("a") | _JSON, "nodes": st.dictionaries(st.sampled_from("abc"), _NODE_LIKE, max_size=3)},
    optional={"output": _JSON, "flows": st.dictionaries(st.just("f"), _JSON)},
)


@given(_JSON | _FLOW_LIKE)
@settings(max_examples=40)
def test_no_json_breaks_the_check(spec: Any) -> None:
    for pointer, fault in check_flow(spec):
        assert pointer == "" or pointer.startswith("/")
        assert fault
        assert "\n" not in fault


@given(_JSON | _FLOW_LIKE, _JSON)
@settings(max_examples=40)
async def test_whatever_is_run_ends_with_a_result(spec: Any, value: object) -> None:
    result = await _bench().run(spec if isinstance(spec, dict) else {}, value)
    assert result.status is not ProgressStatus.RUNNING


_NAMES = ("a", "b", "c", "d")
_REFERENCE = st.sampled_from(
    ["$.input", "$.input.n", "$.run.id", "$.nodes.a.output", "$.nodes.b.output", "$.error.message", "t ${input.n}"]
)
_VALUE = st.recursive(
    st.none() | st.integers(0, 9) | st.text("xy$", max_size=3).map(lambda s: f"v{s}") | _REFERENCE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "n"]), inner, max_size=2),
    max_leaves=5,
)
_CONDITION = st.recursive(
    st.tuples(st.sampled_from(["eq", "ne", "lt", "ge", "in"]), _VALUE, _VALUE).map(lambda c: {c[0]: [c[1], c[2]]})
    | st.sampled_from([{"exists": "$.input.n"}, {"exists": "$.error"}]),
    lambda inner: inner.map(lambda c: {"not": c}) | st.lists(inner, min_size=1, max_size=2).map(lambda c: {"and": c}),
    max_leaves=3,
)


_SOMEWHERE = st.sampled_from([*_NAMES, None])
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "next": _SOMEWHERE,
    "on_error": _SOMEWHERE,
    "timeout_seconds": st.none() | st.just(5),
}


def _node(kind: str, *, fails: bool = True, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **members, **(_COMMON if fails else {})})


_CASE = st.fixed_dictionaries({"when": _CONDITION, "next": _SOMEWHERE})
_NODE = st.one_of(
    _node("set", value=_VALUE),
    _node("template", template=st.just("x ${input}")),
    _node("branch", fails=False, cases=st.lists(_CASE, min_size=1, max_size=2), **{"else": _SOMEWHERE}),
    _node("map", over=_VALUE, value=st.just(["$.item", "$.index"])),
    _node("map", over=_VALUE, flow=st.just("f"), concurrency=st.just(2)),
    _node("http", url=st.just("https://x.example")),
    _node("emit", event=st.just("e"), payload=_VALUE),
    _node("sleep", seconds=st.just(1)),
    _node("call", flow=st.just("f"), input=_VALUE),
    _node("fail", fails=False, message=st.just("no")),
)
_GRAPH = st.fixed_dictionaries({name: _NODE for name in _NAMES})  # noqa: C420 - each name has a node of its own


@st.composite
def _valid(draw: st.DrawFn) -> dict[str, Any]:
    """A flow whose nodes go anywhere, in loops and into themselves; those that nothing leads to are faults and go."""
    main, inner = draw(_GRAPH), draw(_GRAPH)
    spec = {"start": "a", "nodes": main, "output": draw(_VALUE), "flows": {"f": {"start": "a", "nodes": inner}}}
    while lost := [pointer for pointer, fault in check_flow(spec) if "no way leads" in fault]:
        for pointer in lost:
            del (inner if pointer.startswith("/flows") else main)[pointer.rsplit("/", 1)[1]]
    return spec


def _bench() -> FlowBench:
    async def answers(_request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, {}, b'{"n": [1, {"k": 2}]}')

    return FlowBench(answers=answers)


@given(_valid(), st.sampled_from([None, {"n": 1}, [1, [2]], "text"]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_every_valid_flow_ends_inside_its_limits(spec: dict[str, Any], value: object) -> None:
    assume(check_flow(spec) == [])  # what is left may refer to a node that went
    bench = _bench()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "STEPS", 300)  # the real limit is tested once; here it would take minutes
        result = await bench.run(spec, value, seconds=20)
    assert len(bench.of("node_start")) <= 300
    assert bench.clock.monotonic() <= 21
    if result.status is ProgressStatus.COMPLETED:
        assert len(encode(result.output, 10 * limits.VALUE_BYTES)) >= 1
    else:
        assert result.error
        assert result.failure_class in (FailureClass.FRAMEWORK_ERROR, FailureClass.FRAMEWORK_TIMEOUT)


def test_json_that_is_deeper_than_the_interpreter_goes_is_refused() -> None:
    deep: Any = []
    for _ in range(VALUE_DEPTH * 100):
        deep = [deep]
    assert check_flow({"start": "a", "nodes": {"a": {"type": "set", "value": deep}}}) != []
    text = "[" * 900 + "]" * 900
    assert check_flow({"start": "a", "nodes": {"a": {"type": "set", "value": json.loads(text)}}}) != []
