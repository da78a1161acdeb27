"""Conditions: JSON equality, order inside one type, and nothing guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.states import ProgressStatus
from runtime.execution.flow.condition import json_equal
from runtime.execution.flow.engine import check_flow
from tests.support.flow_bench import FlowBench

INPUT = {"n": 3, "s": "b", "yes": True, "none": None, "list": [1, "b", {"k": 1.0}]}


def branch(condition: object) -> dict[str, Any]:
    return {
        "start": "if",
        "nodes": {
            "if": {"type": "branch", "cases": [{"when": condition, "next": "yes"}], "else": "no"},
            "yes": {"type": "set", "value": "yes"},
            "no": {"type": "set", "value": "no"},
        },
    }


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"eq": ["$.input.n", 3]}, True),
        ({"eq": ["$.input.n", 3.0]}, True),
        ({"eq": ["$.input.yes", 1]}, False),
        ({"eq": ["$.input.none", None]}, True),
        ({"eq": ["$.input.none", False]}, False),
        ({"eq": [{"a": ["$.input.n"]}, {"a": [3]}]}, True),
        ({"ne": ["$.input.s", "a"]}, True),
        ({"lt": [2, "$.input.n"]}, True),
        ({"le": ["$.input.n", 3]}, True),
        ({"gt": ["$.input.s", "a"]}, True),
        ({"ge": ["$.input.n", 3.5]}, False),
        ({"in": ["b", "$.input.list"]}, True),
        ({"in": [{"k": 1}, "$.input.list"]}, True),
        ({"in": ["c", "$.input.list"]}, False),
        ({"in": [True, "$.input.list"]}, False),
        ({"exists": "$.input.none"}, True),
        ({"exists": "$.input.nobody.at.all"}, False),
        ({"not": {"exists": "$.error"}}, True),
        ({"and": [{"eq": [1, 1]}, {"eq": [1, 2]}]}, False),
        ({"and": [{"exists": "$.input.x"}, {"gt": ["$.input.x", 1]}]}, False),
        ({"or": [{"eq": [1, 2]}, {"eq": [2, 2]}]}, True),
        ({"or": [{"eq": [1, 1]}, {"gt": ["$.input.x", 1]}]}, True),
    ],
)
async def test_a_condition_holds_or_does_not(condition: object, holds: object) -> None:
    result = await FlowBench().run(branch(condition), INPUT)
    assert (result.error, result.output) == (None, "yes" if holds else "no")


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ({"lt": ["$.input.n", "$.input.s"]}, "cannot order a number and a string"),
        ({"lt": ["$.input.yes", 2]}, "cannot order a boolean and a number"),
        ({"lt": [None, None]}, "cannot order null and null"),
        ({"in": ["b", "$.input.s"]}, "`in` looks into a list, not into a string"),
        ({"eq": ["$.input.nobody", 1]}, "no member 'nobody'"),
    ],
)
async def test_what_cannot_be_compared_fails_instead_of_being_false(condition: object, says: str) -> None:
    result = await FlowBench().run(branch(condition), INPUT)
    assert result.status is ProgressStatus.FAILED
    assert says in (result.error or "")


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        (None, ""), ("x", ""), ({}, ""), ({"eq": [1, 1], "ne": [1, 1]}, ""), ({"like": [1, 1]}, "/like"),
        ({"eq": [1]}, "/eq"), ({"eq": 1}, "/eq"), ({"exists": "input"}, "/exists"), ({"exists": 1}, "/exists"),
        ({"exists": "text ${input}"}, "/exists"), ({"and": []}, "/and"), ({"or": {}}, "/or"),
        ({"not": [{"eq": [1, 1]}]}, "/not"), ({"and": [{"eq": [1, "$.nobody"]}]}, "/and/0/eq/1"),
        ({"or": [{"eq": [1, 1]}] * 101}, "/or"),
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_found_at_its_place(condition: object, place: str) -> None:
    assert [pointer for pointer, _ in check_flow(branch(condition))] == [f"/nodes/if/cases/0/when{place}"]


def test_conditions_are_nested_only_so_deep() -> None:
    condition: dict[str, Any] = {"eq": [1, 1]}
    for _ in range(31):
        condition = {"not": condition}
    assert check_flow(branch(condition)) == []
    assert check_flow(branch({"not": condition})) != []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=3),
    max_leaves=6,
)


def _plain(value: object) -> object:
    """The same value with booleans that equal no number."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


@given(_JSON, _JSON)
def test_equality_is_that_of_json(left: object, right: object) -> None:
    assert json_equal(left, right) == (_plain(left) == _plain(right))
