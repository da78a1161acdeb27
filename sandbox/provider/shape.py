"""Checks the inputs of any resource type against the SDK: required keys, unknown keys, types, at every depth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from sandbox.provider.faults import Failure
from sandbox.provider.schema import Block, Listing, Scalar, Table, Type, arguments_of, fields_of
from sandbox.provider.unknown import is_unknown


def shape_failures(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Failure]:
    """Everything about `inputs` that the SDK's own classes contradict.

    Raises:
        UnknownResourceTypeError: the SDK has no such type.
    """
    yield from _block(Block(arguments_of(type_token)), inputs, "")


def has_unknown_structure(type_token: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a whole list or mapping of these inputs, of the right shape otherwise, is not known yet."""
    return _has_unknown_structure(Block(arguments_of(type_token)), inputs)


def _has_unknown_structure(kind: Type, value: Any) -> bool:
    if value is None or isinstance(kind, Scalar):
        return False
    if is_unknown(value):
        return True
    match kind:
        case Listing(item):
            return any(_has_unknown_structure(item, member) for member in value)
        case Table(item):
            return any(_has_unknown_structure(item, member) for member in value.values())
        case Block():
            types = fields_of(kind.arguments).types
            return any(_has_unknown_structure(types[key], member) for key, member in value.items())
        case _:
            return False


def _walk(kind: Type, value: object, path: str) -> Iterator[Failure]:
    if is_unknown(value):
        return
    match kind:
        case Scalar():
            yield from _scalar(kind, value, path)
        case Listing(item):
            if isinstance(value, Sequence) and not isinstance(value, str):
                for index, member in enumerate(value):
                    yield from _walk(item, member, f"{path}[{index}]")
            else:
                yield Failure(path, f"{_named(value)} where a list is needed")
        case Table(item):
            if isinstance(value, Mapping):
                for key, member in value.items():
                    yield from _walk(item, member, f"{path}.{key}")
            else:
                yield Failure(path, f"{_named(value)} where a mapping is needed")
        case Block():
            if isinstance(value, Mapping):
                yield from _block(kind, value, path)
            else:
                yield Failure(path, f"{_named(value)} where a mapping is needed")


def _block(block: Block, value: Mapping[str, Any], path: str) -> Iterator[Failure]:
    fields = fields_of(block.arguments)
    for key in sorted(fields.required):
        if value.get(key) is None:
            yield Failure(_join(path, key), "is required and missing")
    for key, member in value.items():
        if key not in fields.types:
            yield Failure(_join(path, key), f"unknown key{_suggestion(key, fields.types)}")
        elif member is not None:
            yield from _walk(fields.types[key], member, _join(path, key))


def _scalar(kind: Scalar, value: object, path: str) -> Iterator[Failure]:
    match value:
        case bool():
            fits = kind.kind is bool
        case int() | float():
            fits = kind.kind is float or (kind.kind is int and float(value).is_integer())
        case _:
            fits = isinstance(value, str) and kind.kind is str
    if not fits:
        yield Failure(path, f"{_named(value)} where {kind.word} is needed")


def _suggestion(key: str, known: Mapping[str, Type]) -> str:
    camel = re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), key)
    close = get_close_matches(camel, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"


def _named(value: object) -> str:
    """The kind of a value; the value itself may be a secret."""
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "a mapping"
        case None:
            return "nothing"
        case _:
            return "a list"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
