"""One run of a flow: which node follows which, and what of it others see."""

from __future__ import annotations

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.flow.actions import perform
from runtime.execution.flow.budget import RunBudget
from runtime.execution.flow.definition import Branch, Definition, Graph, Node
from runtime.execution.flow.faults import FlowFault, FlowLimit
from runtime.execution.flow.frame import Frame
from runtime.execution.flow.http import HttpClient
from runtime.execution.flow.limits import CALL_DEPTH
from runtime.execution.flow.size import measure
from runtime.execution.values import ValueRefused, encode, one_line
from runtime.ports.clock import Clock
from runtime.ports.engine import RunContext


class FlowRun:
    """Runs one definition once.

    Args:
        definition: checked.
        context: the run.
        clock: measures limits and waits.
        http: sends requests.
    """

    def __init__(self, definition: Definition, context: RunContext, clock: Clock, http: HttpClient) -> None:
        self._definition = definition
        self._facts: dict[str, object] = {"id": context.run_id, "attempt": context.attempt}
        self.context = context
        self.clock = clock
        self.http = http
        self.budget = RunBudget(clock)

    async def execute(self) -> object:
        """Runs the main flow and gives its output.

        Raises:
            FlowFault, FlowLimit
        """
        output = await self._pass(self._definition.main, self.context.input, label="", depth=0)
        try:
            size = len(encode(output, EVENT_BYTES // 2))
        except ValueRefused:
            await self.context.emit("output", {"omitted": True})
        else:
            await self.context.emit("output", {"output": output, "bytes": size})
        return output

    async def call(self, flow: str, value: object, *, label: str, depth: int) -> object:
        """Runs a sub flow.

        Raises:
            FlowFault, FlowLimit
        """
        if depth > CALL_DEPTH:
            raise FlowLimit(f"sub flows are nested deeper than {CALL_DEPTH}; does {flow!r} call itself?")
        return await self._pass(self._definition.flows[flow], value, label=label, depth=depth)

    async def _pass(self, graph: Graph, value: object, *, label: str, depth: int) -> object:
        frame = Frame(graph, value, self._facts, label=label, depth=depth, budget=self.budget)
        last: object = None
        following: str | None = graph.start
        try:
            while following is not None:
                last, following = await self._visit(frame, graph.nodes[following])
            if graph.output is None:
                return last
            output = graph.output.evaluate(frame.scope)
            measure(output)
        finally:
            frame.close()
        return output

    async def _visit(self, frame: Frame, node: Node) -> tuple[object, str | None]:
        """The node's value and the node that follows."""
        await self.budget.step()
        name = frame.label + node.id
        began = self.clock.monotonic()
        await self.context.emit("node_start", {"node": name, "type": node.kind})
        end: dict[str, object] = {"node": name, "status": "ok"}
        failure: FlowFault | None = None
        value: object = None
        try:
            value, following = await self._act(frame, node)
        except FlowFault as fault:
            failure = fault
            failure.node = fault.node or name
            following = node.on_error
            message = one_line(str(fault))
            end |= {"status": "error", "error": message}
            frame.scope["error"] = {"node": fault.node, "message": message, "status": fault.status_code}
        end["duration_ms"] = round((self.clock.monotonic() - began) * 1000)
        await self.context.emit("node_end", end)
        if failure is not None and node.on_error is None:
            raise failure
        return value, following

    async def _act(self, frame: Frame, node: Node) -> tuple[object, str | None]:
        if isinstance(node.action, Branch):
            return None, _chosen(node.action, frame)
        if node.timeout is None:
            value = await perform(self, frame, node)
        else:
            try:
                async with self.clock.timeout(node.timeout):
                    value = await perform(self, frame, node)
            except TimeoutError:
                raise FlowFault(f"it took longer than {node.timeout:g} s", status_code=504) from None
        await frame.keep(node.id, value, measure(value))
        return value, node.next


def _chosen(branch: Branch, frame: Frame) -> str | None:
    for condition, following in branch.cases:
        if condition.holds(frame.scope):
            return following
    return branch.otherwise
