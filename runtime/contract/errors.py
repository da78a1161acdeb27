"""The root of every error that Holdfast raises on purpose.

- HoldfastError
    - settings.SettingsError: a process or a stack that must not start
    - ports: StoreError, PublishError, TokenUnavailable
    - identity: JobRefused, PushRefused
    - execution, api, worker: their own, each with a code and a decision
"""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """What whoever meets the error does next; nobody reads the text to find out."""

    RETRY = "retry"
    """The same attempt may succeed later."""
    PERMANENT = "permanent"
    """No later attempt of the same input can succeed."""
    REFUSED = "refused"
    """The caller is not who it must be, or asks what it may not; nothing was tried."""


class HoldfastError(Exception):
    """An error with a stable code and a decision.

    Args:
        message: names the thing, the value, the rule and the way out; one line; never a secret.
        code: replaces the class's own code where one class covers several.
    """

    code: str = "internal"
    decision: Decision = Decision.PERMANENT

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    def line(self) -> str:
        """The error as operators read it: `code: message`, on one line."""
        return f"{self.code}: {' '.join(str(self).split())}"
