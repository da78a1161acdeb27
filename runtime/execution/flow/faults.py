"""What goes wrong in a flow, before and while it runs."""

from __future__ import annotations

from runtime.contract.errors import HoldfastError
from runtime.execution.flow.limits import FAULTS


class FlowFault(HoldfastError):
    """A node failed; its `on_error` may catch it.

    Attributes:
        status_code: of the run, where nothing catches it; None means the default.
        node: the innermost node that failed, as events name it; None until it is known.
    """

    code = "flow_fault"

    def __init__(self, message: str, *, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.node: str | None = None


class FlowLimit(HoldfastError):
    """The run went over a limit; nothing in the flow can catch it."""

    code = "flow_limit"


class Faults:
    """Collects what is wrong with a definition, each fault with its place."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, pointer: str, fault: str) -> None:
        """Notes a fault; beyond FAULTS nothing is noted, the definition is wrong anyway."""
        if len(self.found) < FAULTS:
            self.found.append((pointer, fault))


def below(pointer: str, *steps: str | int) -> str:
    """The JSON pointer of a place below another."""
    return pointer + "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
