"""Why a run did not come to its end through the executor: what is known of the job decides what is done.

- ExecutorError
    - ExecutorUnavailable: nothing of the job was begun
    - ExecutorRefused: the executor, or the platform before it, said no
    - ExecutorBroken: nothing is known
"""

from __future__ import annotations

from runtime.contract.errors import Decision, HoldfastError


class ExecutorError(HoldfastError):
    """Root of what a call of the executor may raise."""

    code = "executor_error"


class ExecutorUnavailable(ExecutorError):
    """The executor did not take the job: no connection came about, or it said so. Another call may succeed."""

    code = "executor_unavailable"
    decision = Decision.RETRY


class ExecutorRefused(ExecutorError):
    """The job was refused before it began, and would be again."""

    code = "executor_refused"


class ExecutorBroken(ExecutorError):
    """The job was sent, and its end did not come: it may have been worked, or not. It is not sent again."""

    code = "executor_broken"
