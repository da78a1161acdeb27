"""Property values lose their wrappers, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc

from sandbox.engine.wire import plain_inputs, wrapped_outputs

SIGNATURE, SECRET = rpc._special_sig_key, rpc._special_secret_sig

leaves = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=10))
values = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def struct(body: dict[str, Any]) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(body)
    return message


@given(values, st.data())
def test_what_a_program_receives_reads_back_as_it_was(body: dict[str, Any], data: st.DataObject) -> None:
    secrets = data.draw(st.sets(st.sampled_from(sorted(body)))) if body else set()
    assert plain_inputs(wrapped_outputs(body, secrets)) == (body, frozenset(secrets))


def test_a_secret_inside_a_value_marks_the_whole_value() -> None:
    wrapped = {SIGNATURE: SECRET, "value": "sesame"}
    body = struct({"envs": [{"name": "KEY", "value": wrapped}], "name": "x"})

    assert plain_inputs(body) == ({"envs": [{"name": "KEY", "value": "sesame"}], "name": "x"}, frozenset({"envs"}))


def test_whole_numbers_are_integers_and_absent_members_go() -> None:
    plain, _ = plain_inputs(struct({"a": 600.0, "b": 1.5, "c": None, "d": {"e": None, "f": True}}))

    assert plain == {"a": 600, "b": 1.5, "d": {"f": True}}
    assert isinstance(plain["a"], int)


def test_a_reference_to_a_resource_is_its_id() -> None:
    reference = {SIGNATURE: rpc._special_resource_sig, "urn": "urn:x", "id": "projects/p/topics/t"}
    assert plain_inputs(struct({"topic": reference}))[0] == {"topic": "projects/p/topics/t"}


def test_an_asset_is_refused() -> None:
    with pytest.raises(ValueError, match="assets and archives have no form"):
        plain_inputs(struct({"source": {SIGNATURE: rpc._special_asset_sig, "text": "x"}}))
