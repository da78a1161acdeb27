"""Subscription filters: `attributes.x = "y"`, `!=`, `attributes:x`, `hasPrefix`, AND, OR, NOT and parentheses.

Google's language: AND and OR are not mixed without parentheses, names of operators are in capitals, values are quoted,
keys may be. `!=` is also true of a message that lacks the attribute. A filter has at most 256 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from runtime.contract.errors import HoldfastError

Filter = Callable[[Mapping[str, str]], bool]
"""Whether a message with these attributes is delivered."""

FILTER_BYTES: Final = 256
"""Pub/Sub: longest filter."""

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<word>[\w-]+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<sign>!=|[=:.,()]))""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.DOTALL)
_NAMED_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class InvalidFilter(HoldfastError):
    """A filter that Pub/Sub refuses."""

    code = "invalid_filter"


def parse_filter(text: str) -> Filter:
    """Reads a filter; the empty one lets every message through.

    Raises:
        InvalidFilter: too long, or not a filter; names the place.
    """
    if len(text.encode()) > FILTER_BYTES:
        raise InvalidFilter(f"filter has {len(text.encode())} bytes; the maximum is {FILTER_BYTES}")
    if not text.strip():
        return lambda _: True
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                self._fail(at + len(text[at:]) - len(text[at:].lstrip()))
            kind = found.lastgroup or ""
            self._tokens.append((kind, found.group(kind), found.start(kind)))
            at = found.end()

    def parse(self) -> Filter:
        condition = self._expression()
        if self._next < len(self._tokens):
            self._fail(self._tokens[self._next][2])
        return condition

    def _expression(self) -> Filter:
        terms = [self._term()]
        joiner = ""
        while (word := self._peek("word")) in {"AND", "OR"}:
            if joiner and word != joiner:
                raise InvalidFilter(f"filter {self._text!r} mixes AND and OR; put one of them in parentheses")
            joiner = word
            self._next += 1
            terms.append(self._term())
        if len(terms) == 1:
            return terms[0]
        every = all if joiner == "AND" else any
        return lambda attributes: every(term(attributes) for term in terms)

    def _term(self) -> Filter:
        word = self._peek("word")
        if word == "NOT" or word.startswith("-"):
            inner = self._negated(word)
            return lambda attributes: not inner(attributes)
        if self._accept("sign", "("):
            condition = self._expression()
            self._expect("sign", ")")
            return condition
        if self._accept("word", "hasPrefix"):
            return self._prefix()
        self._expect("word", "attributes")
        return self._comparison()

    def _negated(self, word: str) -> Filter:
        kind, _, at = self._tokens[self._next]
        if word == "NOT" or word == "-":
            self._next += 1
        else:
            self._tokens[self._next] = (kind, word[1:], at + 1)
        return self._term()

    def _prefix(self) -> Filter:
        self._expect("sign", "(")
        self._expect("word", "attributes")
        self._expect("sign", ".")
        key = self._key()
        self._expect("sign", ",")
        prefix = self._string()
        self._expect("sign", ")")
        return lambda attributes: attributes.get(key, "").startswith(prefix) and key in attributes

    def _comparison(self) -> Filter:
        if self._accept("sign", ":"):
            key = self._key()
            return lambda attributes: key in attributes
        self._expect("sign", ".")
        key = self._key()
        if self._accept("sign", "!="):
            value = self._string()
            return lambda attributes: attributes.get(key) != value
        self._expect("sign", "=")
        value = self._string()
        return lambda attributes: attributes.get(key) == value

    def _key(self) -> str:
        return self._string() if self._peek("string") else self._expect("word")

    def _string(self) -> str:
        return _ESCAPE.sub(_unescape, self._expect("string")[1:-1])

    def _peek(self, kind: str) -> str:
        if self._next == len(self._tokens) or self._tokens[self._next][0] != kind:
            return ""
        return self._tokens[self._next][1]

    def _accept(self, kind: str, value: str) -> bool:
        found = self._peek(kind) == value
        self._next += found
        return found

    def _expect(self, kind: str, value: str = "") -> str:
        found = self._peek(kind)
        if not found or (value and found != value):
            self._fail(self._tokens[self._next][2] if self._next < len(self._tokens) else len(self._text))
        self._next += 1
        return found

    def _fail(self, at: int) -> NoReturn:
        seen = self._text[at : at + 20] or "its end"
        raise InvalidFilter(
            f"filter {self._text!r} cannot be read at character {at + 1} ({seen}); write for example"
            ' attributes.kind = "a" AND NOT hasPrefix(attributes.name, "b")'
        )


def _unescape(found: re.Match[str]) -> str:
    unicode, hexadecimal, octal, other = found.groups()
    if unicode or hexadecimal:
        return chr(int(unicode or hexadecimal, 16))
    return chr(int(octal, 8)) if octal else _NAMED_ESCAPES.get(other, other)
