"""From a definition to what runs: everything that is wrong is found before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.execution.flow.definition import Branch, Definition, Evaluate, Graph, Node
from runtime.execution.flow.expression import Expressions, Literal
from runtime.execution.flow.faults import Faults, FlowFault, below
from runtime.execution.flow.fields import NAME, NAME_RULE, Fields
from runtime.execution.flow.kinds import KINDS, NodeReader
from runtime.execution.flow.limits import DEFINITION_BYTES, FLOWS, NODES
from runtime.execution.flow.path import Path
from runtime.execution.flow.size import measure

_NOTHING = Graph("", {}, None)


def compile_definition(spec: object) -> tuple[Definition, list[tuple[str, str]]]:
    """The definition and its faults; it can run only where there are none. Pure, bounded, raises for no input."""
    faults = Faults()
    nothing = Definition(_NOTHING, {})
    try:
        measure(spec, DEFINITION_BYTES)
    except FlowFault as error:
        faults.add("", f"the definition cannot be read: {error}")
        return nothing, faults.found
    if not isinstance(spec, Mapping):
        faults.add("", "a flow is an object with `start` and `nodes`")
        return nothing, faults.found
    members = spec.get("flows", {})
    if not isinstance(members, Mapping):
        faults.add("/flows", "must be an object: name of a sub flow -> its definition")
        members = {}
    if len(members) > FLOWS:
        faults.add("/flows", f"has {len(members)} flows, at most {FLOWS} may be there")
    _check_names(members, "/flows", faults)
    count = sum(_count_nodes(flow) for flow in (spec, *members.values()))
    if count > NODES:
        faults.add("/nodes", f"the flow and its sub flows have {count} nodes, at most {NODES} may be there")
        return nothing, faults.found
    flows = {name: _graph(flow, below("/flows", name), members, faults) for name, flow in members.items()}
    main = {name: value for name, value in spec.items() if name != "flows"}
    return Definition(_graph(main, "", members, faults), flows), faults.found


def _count_nodes(flow: object) -> int:
    nodes = flow.get("nodes") if isinstance(flow, Mapping) else None
    return len(nodes) if isinstance(nodes, Mapping) else 0


def _check_names(named: Mapping[str, object], pointer: str, faults: Faults) -> None:
    for name in named:
        if NAME.fullmatch(name) is None:
            faults.add(below(pointer, name), f"the name must be {NAME_RULE}")


def _graph(flow: object, pointer: str, flows: Mapping[str, object], faults: Faults) -> Graph:
    if not isinstance(flow, Mapping):
        faults.add(pointer, "a flow is an object with `start` and `nodes`")
        return _NOTHING
    fields = Fields(flow, pointer, faults)
    fields.only(("start", "nodes"), ("output",))
    written = flow.get("nodes")
    if not isinstance(written, Mapping) or not written:
        if "nodes" in flow:
            fields.fault("nodes", "must be an object with at least one node: id -> node")
        return _NOTHING
    place = fields.place("nodes")
    _check_names(written, place, faults)
    start = fields.name_of("start", written, "node of this flow", needed=True)
    nodes = {name: _node(name, node, below(place, name), written, flows, faults) for name, node in written.items()}
    expressions = _expressions(written, faults, in_map=False)
    output = expressions.value(flow["output"], fields.place("output")) if "output" in flow else None
    if start is not None:
        for name in sorted(nodes.keys() - _reachable(start, nodes)):
            faults.add(below(place, name), "no way leads from `start` to this node")
    return Graph(start or "", nodes, output)


def _node(
    name: str, node: object, pointer: str, nodes: Mapping[str, object], flows: Mapping[str, object], faults: Faults
) -> Node:
    kind = node.get("type") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or not isinstance(kind, str) or kind not in KINDS:
        place = below(pointer, "type") if isinstance(node, Mapping) else pointer
        faults.add(place, f"a node is an object with a `type`, one of {', '.join(KINDS)}")
        return Node(name, "", Evaluate(Literal(None)), None, None, None)
    fields = Fields(node, pointer, faults)
    reader = NodeReader(
        fields,
        _expressions(nodes, faults, in_map=False),
        _expressions(nodes, faults, in_map=True),
        nodes,
        flows,
    )
    row = KINDS[kind]
    common = [
        key
        for key, there in (("next", row.goes_on), ("timeout_seconds", row.can_fail), ("on_error", row.can_fail))
        if there
    ]
    fields.only(("type", *row.required), (*row.optional, *common))
    return Node(
        id=name,
        kind=kind,
        action=row.read(reader),
        next=fields.name_of("next", nodes, "node of this flow") if row.goes_on else None,
        timeout=fields.seconds("timeout_seconds") if row.can_fail else None,
        on_error=fields.name_of("on_error", nodes, "node of this flow") if row.can_fail else None,
    )


def _expressions(nodes: Mapping[str, object], faults: Faults, *, in_map: bool) -> Expressions:
    def rule(path: Path) -> str | None:
        if path.root in ("item", "index") and not in_map:
            return f"`{path.text}`: `item` and `index` are there only in `input` and `value` of a map"
        if path.root != "nodes":
            return None
        if len(path.steps) < 2 or path.steps[1] != "output":
            return f"`{path.text}`: write nodes.ID.output"
        if path.steps[0] not in nodes:
            return f"`{path.text}`: this flow has no node {path.steps[0]!r}"
        return None

    return Expressions(faults, rule)


def _reachable(start: str, nodes: Mapping[str, Node]) -> set[str]:
    seen: set[str] = set()
    todo: list[str | None] = [start]
    while todo:
        name = todo.pop()
        if name is None or name in seen:
            continue
        seen.add(name)
        node = nodes[name]
        todo += [node.next, node.on_error]
        if isinstance(node.action, Branch):
            todo += [node.action.otherwise, *(following for _, following in node.action.cases)]
    return seen
