"""Definitions that were compiled a short while ago: an event's flow runs again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from runtime.execution.flow.compile import compile_definition
from runtime.execution.flow.definition import Definition
from runtime.execution.values import ValueRefused, encode

KEPT: Final = 64
"""Definitions kept, those that ran last."""
KEPT_BYTES: Final = 32 * 1024
"""Largest definition that is kept, as JSON: 2 MiB are kept at most, and some times as much of what they became."""


class CompiledDefinitions:
    """Compiles definitions, each once as long as it is kept. What is kept is never changed by a run."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Definition] = OrderedDict()

    def definition(self, spec: Mapping[str, object]) -> tuple[Definition, list[tuple[str, str]]]:
        """See compile_definition."""
        try:
            written = encode(spec, KEPT_BYTES)
        except ValueRefused:
            return compile_definition(spec)
        known = self._kept.get(written)
        if known is not None:
            self._kept.move_to_end(written)
            return known, []
        compiled, faults = compile_definition(spec)
        if not faults:
            self._kept[written] = compiled
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return compiled, faults
