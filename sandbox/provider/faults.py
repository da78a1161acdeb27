"""What the stand-in provider refuses."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.contract.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class Failure:
    """One input that a check refused.

    Attributes:
        path: the property, from the top: `template.containers[0].image`; "" for the resource as a whole.
        reason: value, rule and way out, on one line.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class UnknownResourceTypeError(HoldfastError):
    """A type token that the installed SDK does not have."""

    code = "unknown_resource_type"


class ProviderRefused(HoldfastError):
    """The platform would refuse this creation, update, deletion or call."""

    code = "provider_refused"
