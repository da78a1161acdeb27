"""One finding of a policy, on either engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding of a policy pack.

    Attributes:
        policy: its name.
        urn: the resource; "" for the stack.
        message: what is wrong, why it matters and what to do.
        mandatory: whether it ends the run.
    """

    policy: str
    urn: str
    message: str
    mandatory: bool

    def __str__(self) -> str:
        where = f"{named(self.urn)}: " if self.urn else ""
        # The project's own rules begin with their id.
        policy = "" if self.message.startswith(f"{self.policy}: ") else f" [policy {self.policy}]"
        return f"{where}{self.message}{policy}"


def type_of(urn: str) -> str:
    """Type token of a resource, without those of its parents."""
    return urn.split("::")[2].rpartition("$")[2]


def named(urn: str) -> str:
    """A resource as messages name it: logical name, and type in brackets."""
    return f"{urn.rpartition('::')[2]} ({type_of(urn)})"
