"""The kinds of nodes: what each may have, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from runtime.execution.event import event_type_fault
from runtime.execution.flow.condition import parse_condition
from runtime.execution.flow.definition import (
    Action,
    Branch,
    Call,
    EmitEvent,
    Evaluate,
    Fail,
    HttpCall,
    MapOver,
    Sleep,
)
from runtime.execution.flow.expression import Expression, Expressions, Literal, Reference
from runtime.execution.flow.faults import below
from runtime.execution.flow.fields import Fields
from runtime.execution.flow.limits import CASES, HEADERS, MAP_CONCURRENCY, SECONDS
from runtime.execution.flow.path import Path

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
REFUSED_HEADERS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "metadata-flavor",
        "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that the client sets itself, and the one that opens metadata servers."""

_ITEM: Final = Reference(Path("item", "item", ()))


class NodeReader(Struct, frozen=True):
    """What reading a node needs.

    Attributes:
        fields: the node's members.
        plain: expressions outside a map.
        mapped: expressions evaluated for each item.
        nodes: names of the flow's nodes.
        flows: names of the sub flows.
    """

    fields: Fields
    plain: Expressions
    mapped: Expressions
    nodes: Mapping[str, object]
    flows: Mapping[str, object]

    def value(self, name: str) -> Expression:
        """The expression of a member, null where it is absent."""
        return self.plain.value(self.fields.members.get(name), self.fields.place(name))

    def flow(self, name: str) -> str | None:
        """The name of a sub flow."""
        return self.fields.name_of(name, self.flows, "flow in `flows`", needed=True)


class Kind(Struct, frozen=True):
    """One row of the table.

    Attributes:
        read: gives the action.
        required, optional: members besides the common ones.
        goes_on: whether it has `next`.
        can_fail: whether it has `timeout_seconds` and `on_error`.
    """

    read: Callable[[NodeReader], Action]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    goes_on: bool = True
    can_fail: bool = True


def _set(reader: NodeReader) -> Evaluate:
    return Evaluate(reader.value("value"))


def _template(reader: NodeReader) -> Evaluate:
    text = reader.fields.members.get("template")
    if not isinstance(text, str):
        if "template" in reader.fields.members:
            reader.fields.fault("template", "must be a string")
        return Evaluate(Literal(""))
    return Evaluate(reader.plain.template(text, reader.fields.place("template")))


def _branch(reader: NodeReader) -> Branch:
    fields = reader.fields
    written = fields.members.get("cases")
    if not isinstance(written, list) or not 1 <= len(written) <= CASES:
        if "cases" in fields.members:
            fields.fault("cases", f"must be a list of 1 to {CASES} cases")
        written = []
    cases = []
    for number, case in enumerate(written):
        place = below(fields.place("cases"), number)
        if not isinstance(case, Mapping):
            fields.faults.add(place, "a case is an object with `when` and `next`")
            continue
        members = Fields(case, place, fields.faults)
        members.only(("when", "next"), ())
        condition = parse_condition(case.get("when"), members.place("when"), reader.plain, fields.faults)
        cases.append((condition, members.name_of("next", reader.nodes, "node of this flow")))
    return Branch(tuple(cases), fields.name_of("else", reader.nodes, "node of this flow"))


def _map(reader: NodeReader) -> MapOver:
    fields = reader.fields
    given = [name for name in ("flow", "value") if name in fields.members]
    if len(given) != 1:
        fields.faults.add(fields.pointer, "a map has either `flow` (and `input`), or `value`")
    if "input" in fields.members and "flow" not in fields.members:
        fields.fault("input", "belongs to `flow`")
    name = "value" if "value" in fields.members else "input"
    value = reader.mapped.value(fields.members[name], fields.place(name)) if name in fields.members else _ITEM
    concurrency = fields.integer("concurrency", 1, MAP_CONCURRENCY, 1) or 1
    return MapOver(reader.value("over"), value, reader.flow("flow") if "flow" in given else None, concurrency)


def _http(reader: NodeReader) -> HttpCall:
    fields = reader.fields
    url = fields.members.get("url")
    if "url" in fields.members and not isinstance(url, str):
        fields.fault("url", "must be a string")
    written = fields.members.get("headers", {})
    headers: list[tuple[str, Expression]] = []
    if not isinstance(written, Mapping) or len(written) > HEADERS:
        fields.fault("headers", f"must be an object of at most {HEADERS} headers: name -> value")
        written = {}
    for name, value in written.items():
        place = below(fields.place("headers"), name)
        if _HEADER.fullmatch(name) is None or name.lower() in REFUSED_HEADERS:
            fields.faults.add(place, "is no header that a flow may set")
        headers.append((name, reader.plain.value(value, place)))
    method = fields.word("method", METHODS, "GET")
    if "json" in fields.members and method in ("GET", "HEAD"):
        fields.fault("json", f"a {method} request has no body")
    return HttpCall(
        method=method,
        url=reader.value("url"),
        headers=tuple(headers),
        body=reader.value("json") if "json" in fields.members else None,
        as_text=fields.word("response", ("json", "text"), "json") == "text",
        accept_errors=fields.flag("accept_errors"),
    )


def _emit(reader: NodeReader) -> EmitEvent:
    event = reader.fields.members.get("event")
    fault = event_type_fault(event)
    if fault is not None and "event" in reader.fields.members:
        reader.fields.fault("event", fault)
    return EmitEvent(event if isinstance(event, str) else "", reader.value("payload"))


def _sleep(reader: NodeReader) -> Sleep:
    seconds = reader.value("seconds")
    if isinstance(seconds, Literal) and "seconds" in reader.fields.members and not is_seconds(seconds.value):
        reader.fields.fault("seconds", f"must be a number of seconds from 0 to {SECONDS}, or a path to one")
    return Sleep(seconds)


def _call(reader: NodeReader) -> Call:
    return Call(reader.flow("flow") or "", reader.value("input"))


def _fail(reader: NodeReader) -> Fail:
    message = reader.value("message")
    if "message" in reader.fields.members and not isinstance(reader.fields.members["message"], str):
        reader.fields.fault("message", "must be a string")
    return Fail(message, reader.fields.integer("status_code", 400, 599, None))


def is_seconds(value: object) -> bool:
    """Whether a value is a time to sleep."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= SECONDS


KINDS: Final[Mapping[str, Kind]] = {
    "set": Kind(_set, ("value",)),
    "template": Kind(_template, ("template",)),
    "branch": Kind(_branch, ("cases",), ("else",), goes_on=False),
    "map": Kind(_map, ("over",), ("flow", "input", "value", "concurrency")),
    "http": Kind(_http, ("url",), ("method", "headers", "json", "response", "accept_errors")),
    "emit": Kind(_emit, ("event",), ("payload",)),
    "sleep": Kind(_sleep, ("seconds",)),
    "call": Kind(_call, ("flow",), ("input",)),
    "fail": Kind(_fail, ("message",), ("status_code",), goes_on=False, can_fail=False),
}
