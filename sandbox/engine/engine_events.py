"""What the real engine tells while it works, in the words of the embedded one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from pulumi.automation.events import DiagnosticEvent, EngineEvent, PolicyEvent

from sandbox.engine.violation import Violation, named, type_of

_COLOUR: Final = re.compile(r"<\{%[^%]*%\}>")
_AGAIN: Final = "an unhandled error occurred: "
"""Before a program's own error when the engine repeats it."""
_CHECK: Final = re.compile(
    r"\S+ resource '[^']*'(?:: property (?P<path>\S+) value \{.*\})? has a problem: (?P<reason>.*)", re.DOTALL
)
"""A provider's refusal of an input, in the engine's words; the value in it may be long."""
_FOLLOWS: Final = frozenset({"update failed", "preview failed", "Resource monitor has terminated, shutting down"})
"""What the engine adds to every fault."""
_MANDATORY: Final = "mandatory"


@dataclass(frozen=True, slots=True)
class Step:
    """What happens, or would happen, to one resource of the platform.

    Attributes:
        operation: the engine's word: `create`, `update`, `same`, `delete`, `replace` and those that belong to it.
        urn: the resource.
        changed: top-level inputs that differ.
    """

    operation: str
    urn: str
    changed: tuple[str, ...] = ()


@dataclass(slots=True)
class EngineEvents:
    """Collects the events of one operation."""

    steps: list[Step] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, log: str) -> EngineEvents:
        """What the engine wrote, an event a line."""
        events = cls()
        for line in log.splitlines():
            if line.strip():
                events(EngineEvent.from_json(json.loads(line)))
        return events

    def __call__(self, event: EngineEvent) -> None:
        """Takes one event."""
        if event.res_outputs_event is not None:
            step = event.res_outputs_event.metadata
            if step.type.startswith("gcp:"):
                self.steps.append(Step(step.op.value, step.urn, tuple(step.diffs or ())))
        if event.diagnostic_event is not None:
            self._diagnostic(event.diagnostic_event)
        if event.policy_event is not None:
            self._policy(event.policy_event)

    @property
    def faults(self) -> list[str]:
        """A line for each fault, and for each mandatory finding of a policy."""
        causes = [line for line in self.errors if line not in _FOLLOWS]
        return [*causes, *(str(one) for one in self.violations if one.mandatory)]

    def urns(self, operations: Collection[str]) -> tuple[str, ...]:
        """The resources that one of some operations happened to."""
        return tuple(step.urn for step in self.steps if step.operation in operations)

    def _diagnostic(self, event: DiagnosticEvent) -> None:
        into = {"error": self.errors, "warning": self.warnings}.get(event.severity)
        if into is None:
            return
        for line in _message(event.message).splitlines():
            text = f"{named(event.urn)}: {line}" if event.urn and "::gcp:" in f"::{type_of(event.urn)}" else line
            if line.strip() and text not in into:
                into.append(text)

    def _policy(self, event: PolicyEvent) -> None:
        message = " ".join(_COLOUR.sub("", event.message).split())
        # The engine puts a rule's description first; a rule of the project says everything after its own id.
        own = message.find(f"{event.policy_name}: ")
        violation = Violation(
            policy=event.policy_name,
            urn=event.resource_urn or "",
            message=message[max(own, 0) :],
            mandatory=event.enforcement_level == _MANDATORY,
        )
        if violation not in self.violations:
            self.violations.append(violation)


def _message(text: str) -> str:
    message = _COLOUR.sub("", text).strip().removeprefix(_AGAIN)
    check = _CHECK.fullmatch(message)
    if check is None:
        return message
    return f"{check['path']}: {check['reason']}" if check["path"] else check["reason"]
