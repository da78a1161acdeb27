"""The program in a first preview: what is computed is not known, and a provider can be given to its components."""

from __future__ import annotations

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from infra.program import program
from sandbox.engine.wire import plain_inputs
from sandbox.provider.unknown import UNKNOWN
from sandbox.world import SERVICE
from tests.support.program_previews import Registered, previewed, under_another_provider
from tests.support.stacks import NUMBER, REGION, WHOLE

FORMATTED = ("Calling __str__", "Calling [__str__]", "pulumi.output", "Output object", "Output[")


@pytest.fixture(scope="module")
def first() -> Registered:
    return previewed(program, **WHOLE)


def _texts(value: Value) -> list[str]:
    """Every text of a value, keys included."""
    match value.WhichOneof("kind"):
        case "string_value":
            return [value.string_value]
        case "list_value":
            return [text for member in value.list_value.values for text in _texts(member)]
        case "struct_value":
            return texts(value.struct_value)
        case _:
            return []


def texts(struct: Struct) -> list[str]:
    return [*struct.fields, *(text for value in struct.fields.values() for text in _texts(value))]


def test_no_input_is_the_text_of_an_output_that_is_not_known_yet(first: Registered) -> None:
    """BR-122: every input of every resource, and of every function that the program calls."""
    found = {urn: texts(request.object) for urn, request in first.resources.items()}
    found |= {call.tok: texts(call.args) for call in first.calls}

    assert sum(UNKNOWN in one for one in found.values()) > 20, "much is not known in a first preview"
    wrong = {urn: text for urn, many in found.items() for text in many if any(part in text for part in FORMATTED)}
    assert wrong == {}


def test_addresses_and_numbers_are_known_before_anything_exists(first: Registered) -> None:
    """BR-122: the audience in a service's environment is its address. BR-134: variables and labels are texts."""
    services = [plain_inputs(one.object)[0] for one in first.resources.values() if one.type == SERVICE]
    assert len(services) == 3
    for service in services:
        variables = {env["name"]: env.get("value") for env in service["template"]["containers"][0]["envs"]}
        address = f"https://{service['name']}-{NUMBER}.{REGION}.run.app"
        assert variables.get("PUBSUB_PUSH_AUDIENCE", address) == address
        assert UNKNOWN not in variables.values()
        assert all(isinstance(value, str) for value in variables.values() if value is not None)
        assert all(isinstance(value, str) for value in service["labels"].values())


def test_what_a_program_gives_its_components_reaches_every_child_and_every_call() -> None:
    """BR-125."""
    seen = previewed(under_another_provider, **WHOLE)
    (other,) = [urn for urn, one in seen.resources.items() if one.type == "pulumi:providers:gcp"]
    children = {urn: one for urn, one in seen.resources.items() if one.custom and urn != other}

    assert {one.type for one in children.values()} >= {SERVICE}
    assert [urn for urn, one in children.items() if not one.provider.startswith(f"{other}::")] == []
    assert [urn for urn in children if "::holdfast:infra:" not in urn] == []
    assert seen.calls
    assert [call.tok for call in seen.calls if not call.provider.startswith(f"{other}::")] == []
