"""Paths and texts: what they find, and how they fail."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.states import ProgressStatus
from runtime.execution.flow.engine import check_flow
from runtime.execution.flow.path import PathSyntax, parse_path
from tests.support.flow_bench import FlowBench, value_flow

INPUT: dict[str, Any] = {
    "name": "Ada",
    "n": 3,
    "list": [10, 20, {"deep": True}],
    "": 1,
    "a b": 2,
    "none": None,
    'q"': 4,
}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("$.input", INPUT),
        ("$.input.name", "Ada"),
        ("$.input.list[0]", 10),
        ("$.input.list[-1].deep", True),
        ('$.input["a b"]', 2),
        ('$.input[""]', 1),
        ('$.input["q\\""]', 4),
        ("$.input.none", None),
        ("$.run", {"id": "r1", "attempt": 2}),
        ("Hello ${input.name}", "Hello Ada"),
        ("${input.n}", "3"),
        ("${input.list[2]} ${input.none}", '{"deep":true} null'),
        ("$${input.n}", "${input.n}"),
        ("$$.input", "$.input"),
        ("costs $5", "costs $5"),
        ("$", "$"),
        ("$$5", "$$5"),
        ("x $.input", "x $.input"),
        ({"a": ["$.input.n", {"b": "${input.n}!"}], "c": 1}, {"a": [3, {"b": "3!"}], "c": 1}),
        (["$$.a", "b"], ["$.a", "b"]),
        ({}, {}),
        (1.5, 1.5),
    ],
)
async def test_a_value_gives_what_it_says(value: object, found: object) -> None:
    result = await FlowBench().run(value_flow(value), INPUT)
    assert (result.error, result.output) == (None, found)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$.input.nobody", "no member 'nobody'"),
        ("$.input.list[3]", "no position 3 in a list of 3"),
        ("$.input.list[-4]", "no position -4"),
        ("$.input.name.first", "a string has no member 'first'"),
        ("$.input.n[0]", "a number has no position 0"),
        ("$.input.none.x", "null has no member"),
        ("$.input[0]", "an object has no position 0"),
        ('$.input.list["0"]', "a list has no member '0'"),
        ("$.error", "there is no `error` here"),
        ("$.nodes.n0.output", "no member 'n0'"),
        ("text ${input.nobody}", "no member 'nobody'"),
    ],
)
async def test_a_path_that_leads_nowhere_fails_the_run_and_names_itself(path: str, says: str) -> None:
    result = await FlowBench().run(value_flow(path), INPUT)
    assert result.status is ProgressStatus.FAILED
    assert says in (result.error or "")


@pytest.mark.parametrize(
    "text",
    [
        "$.", "$.outside", "$.input.", "$.input..a", "$.input[", "$.input[a]", "$.input['a']", "$.input[1.5]",
        "$.input.a b", "$.input.__class__()", "$.input|x", "${input.a", "${}", "${ input.a }", "${input.a + 1}",
        "$.item", "$.index", "${item}", "$.nodes", "$.nodes.n0", "$.nodes.n0.value", "$.nodes.other.output",
        "$.nodes[0].output", '$.input["\\x"]', "$.input" + ".a" * 33, "$.input." + "a" * 600,
    ],
)  # fmt: skip
def test_bad_syntax_is_found_before_anything_runs(text: str) -> None:
    faults = check_flow(value_flow(text))
    assert [pointer for pointer, _ in faults] == ["/nodes/n0/value"]


def test_a_text_has_a_largest_length_and_a_largest_number_of_parts() -> None:
    assert check_flow(value_flow("${input}" * 201)) != []
    assert check_flow(value_flow("${input}" + "x" * 20_000)) != []
    assert check_flow(value_flow("x" * 20_000)) == [], "a text without parts is data"


async def test_a_text_cannot_grow_past_the_largest_value() -> None:
    result = await FlowBench().run(value_flow("${input}" * 100), "x" * 200_000)
    assert "longer than" in (result.error or "")


_KEYS = st.text(max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def _paths(value: object, so_far: str = "input") -> list[tuple[str, object]]:
    found = [(so_far, value)]
    if isinstance(value, dict):
        for name, child in value.items():
            found += _paths(child, f"{so_far}[{json.dumps(name)}]")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += _paths(child, f"{so_far}[{index}]")
    return found


@given(_VALUES)
def test_every_place_of_a_value_has_a_path_that_finds_it(value: object) -> None:
    for text, wanted in _paths(value):
        try:
            path = parse_path(text)
        except PathSyntax:
            assert "\n" in text or "}" in text, text
            continue
        assert path.find({"input": value}) is wanted


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_is_refused(text: str) -> None:
    with contextlib.suppress(PathSyntax):
        assert parse_path(text).text == text


@given(_VALUES.filter(lambda value: "$" not in json.dumps(value)))
async def test_a_value_without_a_dollar_is_itself(value: object) -> None:
    result = await FlowBench().run(value_flow({"v": value}))
    assert result.output == {"v": value}
