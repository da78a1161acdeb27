"""How large a value is, found without writing it out."""

from __future__ import annotations

from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.limits import VALUE_BYTES
from runtime.execution.values import VALUE_DEPTH


def measure(value: object, limit: int = VALUE_BYTES) -> int:
    """Roughly the bytes of a value as JSON. Shared parts count every time that they would be written, so a value that
    is small in memory and huge on the wire is found out after `limit` bytes of walking.

    Raises:
        FlowFault: over the limit, or nested deeper than a job's values may be.
    """
    if value is None or isinstance(value, bool | float):
        return 8
    size = 0
    todo: list[tuple[object, int]] = [(value, 1)]
    while todo:
        item, level = todo.pop()
        if isinstance(item, str):
            size += len(item) + 2 if item.isascii() else 3 * len(item) + 2
        elif isinstance(item, dict | list):
            if level > VALUE_DEPTH:
                raise FlowFault(f"the value is nested deeper than {VALUE_DEPTH} levels")
            children = item.values() if isinstance(item, dict) else item
            size += 2 + (sum(len(name) + 4 for name in item) if isinstance(item, dict) else len(item))
            todo.extend((child, level + 1) for child in children)
        elif isinstance(item, int) and not isinstance(item, bool):
            size += 2 + item.bit_length() // 3
        else:
            size += 8
        if size > limit:
            raise FlowFault(f"the value is larger than {limit} bytes")
    return size
