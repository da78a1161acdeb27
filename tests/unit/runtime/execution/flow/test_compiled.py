"""Definitions that are kept: the same one is compiled once, and never taken for another."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.execution.flow.compile import compile_definition
from runtime.execution.flow.compiled import KEPT, CompiledDefinitions


def flow(value: object) -> dict[str, Any]:
    return {"start": "a", "nodes": {"a": {"type": "set", "value": value, "next": None}}}


def test_a_definition_is_compiled_once() -> None:
    definitions = CompiledDefinitions()
    first, faults = definitions.definition(flow({"n": 1}))
    assert faults == []
    assert definitions.definition(flow({"n": 1}))[0] is first
    assert first == compile_definition(flow({"n": 1}))[0]


@pytest.mark.parametrize("other", [{"n": True}, {"n": 1.0}, {"n": "1"}, {"n": None}, {"n": [1]}, {"m": 1}, {}], ids=str)
def test_no_definition_is_taken_for_another(other: object) -> None:
    definitions = CompiledDefinitions()
    definitions.definition(flow({"n": 1}))
    compiled, faults = definitions.definition(flow(other))
    assert faults == []
    assert repr(compiled) == repr(compile_definition(flow(other))[0])


def test_those_that_ran_last_are_kept() -> None:
    definitions = CompiledDefinitions()
    first, second = (definitions.definition(flow(number))[0] for number in (0, 1))
    for number in range(2, KEPT + 1):
        definitions.definition(flow(0))
        definitions.definition(flow(number))
    assert definitions.definition(flow(0))[0] is first
    assert definitions.definition(flow(1))[0] is not second


@pytest.mark.parametrize(
    "spec", [{}, {"start": "a"}, flow("${nodes.b.output}"), flow(float("nan")), flow("x" * 40_000)]
)
def test_what_is_wrong_or_large_is_compiled_each_time(spec: dict[str, Any]) -> None:
    definitions = CompiledDefinitions()
    for _ in range(2):
        compiled, faults = definitions.definition(spec)
        assert (repr(compiled), faults) == (repr(compile_definition(spec)[0]), compile_definition(spec)[1])
