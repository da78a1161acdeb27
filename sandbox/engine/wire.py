"""Property values between the engine's protocol and plain Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from google.protobuf import struct_pb2
from pulumi.runtime import rpc

SIGNATURE: Final = rpc._special_sig_key  # noqa: SLF001 - the protocol's own constants, which the SDK keeps private
SECRET: Final = rpc._special_secret_sig  # noqa: SLF001
_RESOURCE: Final = rpc._special_resource_sig  # noqa: SLF001


def plain_inputs(struct: struct_pb2.Struct) -> tuple[dict[str, Any], frozenset[str]]:
    """Values without their wrappers, and the top-level names whose value holds a secret.

    Whole numbers become integers, absent (null) members go, references to resources become their ids.

    Raises:
        ValueError: a value of a kind that has no plain form, such as an asset.
    """
    values: dict[str, Any] = {}
    secrets: set[str] = set()
    for name, value in sorted(struct.fields.items()):
        plain, secret = _plain(value)
        if plain is not None:
            values[name] = plain
        if secret:
            secrets.add(name)
    return values, frozenset(secrets)


def wrapped_outputs(values: Mapping[str, Any], secrets: Collection[str]) -> struct_pb2.Struct:
    """Plain values as a program receives them: secret ones stay marked."""
    struct = struct_pb2.Struct()
    marked = {name: {SIGNATURE: SECRET, "value": value} for name, value in values.items() if name in secrets}
    struct.update({**values, **marked})
    return struct


def _plain(value: struct_pb2.Value) -> tuple[Any, bool]:
    match value.WhichOneof("kind"):
        case "struct_value":
            return _plain_mapping(value.struct_value)
        case "list_value":
            members = [_plain(member) for member in value.list_value.values]
            return [member for member, _ in members], any(secret for _, secret in members)
        case "number_value":
            number = value.number_value
            return (int(number) if number.is_integer() else number), False
        case "string_value":
            return value.string_value, False
        case "bool_value":
            return value.bool_value, False
        case _:
            return None, False


def _plain_mapping(struct: struct_pb2.Struct) -> tuple[Any, bool]:
    if SIGNATURE in struct.fields:
        signature = struct.fields[SIGNATURE].string_value
        if signature == SECRET:
            return _plain(struct.fields["value"])[0], True
        if signature == _RESOURCE:
            return struct.fields["id" if "id" in struct.fields else "urn"].string_value, False
        raise ValueError("assets and archives have no form in the sandbox")
    members = {name: _plain(member) for name, member in sorted(struct.fields.items())}
    values = {name: plain for name, (plain, _) in members.items() if plain is not None}
    return values, any(secret for _, secret in members.values())
