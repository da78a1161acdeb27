"""A flow as it runs: what is left of a definition once it was checked."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from runtime.execution.flow.condition import Condition
from runtime.execution.flow.expression import Expression


class Evaluate(Struct, frozen=True):
    """`set` and `template`: a value."""

    value: Expression


class Branch(Struct, frozen=True):
    """`branch`: goes to the first case that holds.

    Attributes:
        cases: condition and the node that follows; None ends the flow.
        otherwise: the node that follows where none holds.
    """

    cases: tuple[tuple[Condition, str | None], ...]
    otherwise: str | None


class MapOver(Struct, frozen=True):
    """`map`: one value for each item of a list.

    Attributes:
        over: gives the list.
        value: the item's input of `flow`, or its result where there is no flow.
        flow: sub flow run for each item; None: `value` is the result.
        concurrency: items at a time.
    """

    over: Expression
    value: Expression
    flow: str | None
    concurrency: int


class HttpCall(Struct, frozen=True):
    """`http`: one request.

    Attributes:
        method: upper case.
        url: gives the address.
        headers: name and value.
        body: sent as JSON; None sends no body.
        as_text: the answer's body is kept as text instead of read as JSON.
        accept_errors: an answer that is not 2xx is a result too, not a failure.
    """

    method: str
    url: Expression
    headers: tuple[tuple[str, Expression], ...]
    body: Expression | None
    as_text: bool
    accept_errors: bool


class EmitEvent(Struct, frozen=True):
    """`emit`: an event of the run's stream."""

    event: str
    payload: Expression


class Sleep(Struct, frozen=True):
    """`sleep`: waits."""

    seconds: Expression


class Call(Struct, frozen=True):
    """`call`: runs a sub flow."""

    flow: str
    value: Expression


class Fail(Struct, frozen=True):
    """`fail`: ends the run as failed."""

    message: Expression
    status_code: int | None


Action = Evaluate | Branch | MapOver | HttpCall | EmitEvent | Sleep | Call | Fail


class Node(Struct, frozen=True):
    """One step.

    Attributes:
        id: its name in the graph.
        kind: as written.
        action: what it does.
        next: the node that follows; None ends the flow.
        timeout: seconds; None: no limit of its own.
        on_error: the node that follows a failure; None: the failure ends the flow.
    """

    id: str
    kind: str
    action: Action
    next: str | None
    timeout: float | None
    on_error: str | None


class Graph(Struct, frozen=True):
    """One flow: the main one, or a sub flow.

    Attributes:
        start: first node.
        nodes: by id.
        output: what the flow gives; None: the value of its last node.
    """

    start: str
    nodes: Mapping[str, Node]
    output: Expression | None


class Definition(Struct, frozen=True):
    """A checked definition."""

    main: Graph
    flows: Mapping[str, Graph]
