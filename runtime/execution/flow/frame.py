"""One pass through a graph: where its paths look."""

from __future__ import annotations

from runtime.execution.flow.budget import RunBudget
from runtime.execution.flow.definition import Graph


class Frame:
    """The values of one pass.

    Args:
        graph: what is passed through.
        value: `input`.
        facts: `run`.
        label: put before node ids in events and errors: how the pass came about, "" for the main flow.
        depth: sub flows around it.
        budget: the run's.
    """

    def __init__(
        self, graph: Graph, value: object, facts: dict[str, object], *, label: str, depth: int, budget: RunBudget
    ) -> None:
        self.graph = graph
        self.label = label
        self.depth = depth
        self._budget = budget
        self._sizes: dict[str, int] = {}
        self._nodes: dict[str, object] = {}
        self.scope: dict[str, object] = {"input": value, "nodes": self._nodes, "run": facts}

    async def keep(self, node: str, value: object, size: int) -> None:
        """The output of a node, in place of an earlier one."""
        before = self._sizes.get(node, 0)
        self._sizes[node] = size
        self._nodes[node] = {"output": value}
        await self._budget.hold(size, before)

    def close(self) -> None:
        """Nothing of it is kept any longer."""
        self._budget.release(sum(self._sizes.values()))
