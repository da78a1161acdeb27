"""The language of subscription filters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.pubsub.filter import FILTER_BYTES, Filter, InvalidFilter, parse_filter


@pytest.mark.parametrize(
    ("text", "attributes", "passes"),
    [
        ("", {}, True),
        ("  ", {"a": "b"}, True),
        ('attributes.x = "y"', {"x": "y"}, True),
        ('attributes.x="y"', {"x": "Y"}, False),
        ('attributes.x = "y"', {}, False),
        ('attributes.x != "y"', {"x": "z"}, True),
        ('attributes.x != "y"', {"x": "y"}, False),
        ('attributes.x != "y"', {}, True),
        ("attributes:x", {"x": ""}, True),
        ("attributes:x", {"y": "x"}, False),
        ('attributes:"iana.org/language_tag"', {"iana.org/language_tag": "en"}, True),
        ('attributes."a b" = "c"', {"a b": "c"}, True),
        ("attributes:my-key_1", {"my-key_1": "1"}, True),
        ('hasPrefix(attributes.x, "ab")', {"x": "abc"}, True),
        ('hasPrefix(attributes.x, "ab")', {"x": "a"}, False),
        ('hasPrefix(attributes.x, "")', {}, False),
        ('NOT attributes.x = "y"', {"x": "z"}, True),
        ("-attributes:x", {"x": "z"}, False),
        ('NOT NOT attributes.x = "y"', {"x": "y"}, True),
        ('attributes.x = "1" AND attributes.y = "2"', {"x": "1", "y": "2"}, True),
        ('attributes.x = "1" AND attributes.y = "2" AND attributes:z', {"x": "1", "y": "2"}, False),
        ('attributes.x = "1" OR attributes.y = "2"', {"y": "2"}, True),
        ('(attributes.x = "1" OR attributes.y = "2") AND NOT attributes:z', {"y": "2", "z": "3"}, False),
        ('attributes.x = "1" AND (attributes:y OR attributes:z)', {"x": "1", "z": ""}, True),
        ("NOT (attributes:x AND attributes:y)", {"x": ""}, True),
        (r'attributes.x = "a\"b\\c"', {"x": 'a"b\\c'}, True),
        (r'attributes.x = "\u00e9\x41\101\n"', {"x": "éAA\n"}, True),
        ('attributes.AND = "OR"', {"AND": "OR"}, True),
    ],
)
def test_a_filter_lets_through_what_it_describes(text: str, attributes: dict[str, str], passes: bool) -> None:
    assert parse_filter(text)(attributes) is passes


@pytest.mark.parametrize(
    "text",
    [
        "attributes",
        "attributes.x",
        "attributes.x =",
        "attributes.x = y",
        'attributes.x == "y"',
        'attributes.x > "y"',
        'data = "y"',
        'attributes.x = "y',
        'attributes.a.b = "y"',
        "attributes:x attributes:y",
        "attributes:x AND",
        "AND attributes:x",
        "NOT",
        "(attributes:x",
        "attributes:x)",
        "()",
        'hasPrefix(attributes:x, "y")',
        "hasPrefix(attributes.x)",
        'hasSuffix(attributes.x, "y")',
        "attributes:x and attributes:y",
        "(" * 200,
        "NOT " * 60,
    ],
)
def test_an_unreadable_filter_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidFilter, match="cannot be read at character"):
        parse_filter(text)


def test_and_and_or_are_not_mixed_without_parentheses() -> None:
    with pytest.raises(InvalidFilter, match="mixes AND and OR"):
        parse_filter("attributes:x AND attributes:y OR attributes:z")


def test_a_filter_has_at_most_256_bytes() -> None:
    parse_filter(f'attributes.x = "{"a" * 239}"')
    with pytest.raises(InvalidFilter, match="257 bytes; the maximum is 256"):
        parse_filter(f'attributes.x = "{"a" * 240}"')


Pair = tuple[str, Filter]
"""A filter as text, and what it means."""

_KEYS = st.sampled_from(["a", "b", "c-1"])
_VALUES = st.text(alphabet='xy"\\é', max_size=3)


def present(key: str) -> Pair:
    return f"attributes:{key}", lambda attributes: key in attributes


def equal(key: str, value: str) -> Pair:
    return f"attributes.{key} = {json.dumps(value, ensure_ascii=False)}", lambda found: found.get(key) == value


def unequal(key: str, value: str) -> Pair:
    return f"attributes.{key} != {json.dumps(value, ensure_ascii=False)}", lambda found: found.get(key) != value


def negated(one: Pair) -> Pair:
    return f"NOT ({one[0]})", lambda attributes: not one[1](attributes)


def both(one: Pair, two: Pair) -> Pair:
    return f"({one[0]}) AND ({two[0]})", lambda attributes: one[1](attributes) and two[1](attributes)


def either(one: Pair, two: Pair) -> Pair:
    return f"({one[0]}) OR ({two[0]})", lambda attributes: one[1](attributes) or two[1](attributes)


_FILTERS = st.recursive(
    st.one_of(st.builds(present, _KEYS), st.builds(equal, _KEYS, _VALUES), st.builds(unequal, _KEYS, _VALUES)),
    lambda inner: st.one_of(st.builds(negated, inner), st.builds(both, inner, inner), st.builds(either, inner, inner)),
    max_leaves=5,
)


@given(pair=_FILTERS, attributes=st.dictionaries(_KEYS, _VALUES))
def test_a_read_filter_means_what_was_written(pair: Pair, attributes: dict[str, str]) -> None:
    text, means = pair
    if len(text.encode()) <= FILTER_BYTES:
        assert parse_filter(text)(attributes) is means(attributes)


@given(st.text(max_size=40))
def test_no_text_makes_the_reader_fail_in_another_way(text: str) -> None:
    try:
        parse_filter(text)
    except InvalidFilter:
        return
