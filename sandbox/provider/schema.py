"""What a resource type takes, read from the installed `pulumi_gcp` classes: no second copy to grow old."""

from __future__ import annotations

import importlib
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pulumi
from pulumi import _types as sdk

from sandbox.provider.faults import UnknownResourceTypeError

_TOKEN: Final = re.compile(r"gcp:(?P<module>[A-Za-z0-9]+)/[A-Za-z0-9]+:(?P<name>[A-Za-z0-9]+)")


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that the SDK does not describe."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number or boolean."""

    kind: type[str | int | float | bool]

    @property
    def word(self) -> str:
        """The kind as messages say it."""
        return {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}[self.kind]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with free keys."""

    item: Type


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping with known keys, described by one of the SDK's argument classes."""

    arguments: type


Type = Anything | Scalar | Listing | Table | Block


@dataclass(frozen=True, slots=True)
class Fields:
    """Keys of a block, camelCase, as they travel."""

    types: Mapping[str, Type]
    required: frozenset[str]


@cache
def fields_of(arguments: type) -> Fields:
    """Keys of one of the SDK's argument classes."""
    wire_names = sdk.input_type_py_to_pulumi_names(arguments)
    parameters = list(inspect.signature(arguments).parameters.values())
    required = {wire_names[p.name] for p in parameters if p.default is inspect.Parameter.empty}
    types_ = {name: _described(annotation) for name, annotation in sdk.input_type_types(arguments).items()}
    return Fields(types_, frozenset(required))


@cache
def arguments_of(type_token: str) -> type:
    """The argument class of a resource type.

    Raises:
        UnknownResourceTypeError: the SDK has no such type.
    """
    match = _TOKEN.fullmatch(type_token)
    try:
        module = importlib.import_module(f"pulumi_gcp.{match['module'].lower()}") if match else None
    except ModuleNotFoundError:
        module = None
    # A token of the SDK's own may begin its class in lower case.
    class_name = match["name"][0].upper() + match["name"][1:] if match else ""
    resource = getattr(module, class_name, None)
    if match is None or getattr(resource, "pulumi_type", None) != type_token:
        raise UnknownResourceTypeError(
            f"resource type {type_token} is not in the installed pulumi_gcp; the stand-in provider knows its types only"
        )
    found: type = getattr(module, f"{class_name}Args")
    return found


def _described(annotation: object) -> Type:
    kinds = [kind for kind in _alternatives(annotation) if kind is not type(None)]
    if len(kinds) != 1:
        return Anything()
    kind = kinds[0]
    origin = typing.get_origin(kind) or kind
    if kind in {str, int, float, bool}:
        return Scalar(typing.cast("Any", kind))
    if origin is Sequence or origin is list:
        return Listing(_described(typing.get_args(kind)[0]))
    if origin is Mapping or origin is dict:
        return Table(_described(typing.get_args(kind)[1]))
    if isinstance(kind, type) and sdk.is_input_type(kind):
        return Block(kind)
    return Anything()


def _alternatives(annotation: object) -> list[object]:
    """Members of a union, without the wrappers in which an input may still be unresolved."""
    if typing.get_origin(annotation) not in {typing.Union, types.UnionType}:
        return [annotation]
    wrappers = {Awaitable, pulumi.Output}
    return [kind for kind in typing.get_args(annotation) if (typing.get_origin(kind) or kind) not in wrappers]
