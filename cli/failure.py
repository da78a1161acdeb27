"""What a command says when it cannot do its work: one line and an exit code, never a traceback."""

from __future__ import annotations

from enum import IntEnum

from runtime.contract.errors import HoldfastError


class ExitCode(IntEnum):
    """Exit codes of every command; shells and CI may rely on them."""

    OK = 0
    RUN_NOT_SUCCEEDED = 1
    """The run ended in another state than `succeeded`."""
    USAGE = 2
    """The command line or a file named in it cannot be used."""
    UNREACHABLE = 3
    """No answer from the API, or nothing is running on this machine."""
    REFUSED = 4
    """The API answered, and said no."""
    NOT_STARTED = 5
    """The local stack could not be brought up."""
    STACK_REFUSED = 6
    """A stack's values, the engine or a policy refuses the deployment."""
    SERVICE_NOT_READY = 7
    """A deployed service does not run its newest revision."""
    INTERRUPTED = 130
    """Ended by Ctrl-C before its work was done."""


class CommandFailed(HoldfastError):
    """Ends a command.

    Args:
        message: one line: what, why, and what to do.
        exit_code: see ExitCode.
    """

    code = "command_failed"

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code
