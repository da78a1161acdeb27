"""What a job's return value means: plain output, or an answer with a status of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.event import LAST_EVENT
from runtime.execution.values import ValueRefused, encode, one_line
from runtime.ports.engine import RunResult

ANSWER_KEYS: Final = frozenset({"output", "status_code", "error"})


def failed(error: str, *, status_code: int | None = None, failure_class: FailureClass | None = None) -> RunResult:
    """A failed run; by default the fault is the user code's."""
    return RunResult(
        ProgressStatus.FAILED,
        status_code=status_code,
        error=one_line(error),
        failure_class=failure_class or FailureClass.FRAMEWORK_ERROR,
    )


def timed_out() -> RunResult:
    """A run that did not end inside its deadline."""
    return RunResult(ProgressStatus.TIMEOUT, error="Execution timeout", failure_class=FailureClass.FRAMEWORK_TIMEOUT)


def cancelled() -> RunResult:
    """A run that was stopped on request."""
    return RunResult(ProgressStatus.CANCELLED, error="Execution cancelled")


def read_answer(value: object) -> RunResult:
    """The result that a returned value stands for.

    An object with `status_code` or `error` is an answer: it may have `output` beside them and nothing else, and a
    status of 400 or more, or an `error`, makes the run failed. Any other value is the output of a completed run.
    """
    if not isinstance(value, Mapping) or not {"status_code", "error"} & value.keys():
        return RunResult(ProgressStatus.COMPLETED, output=value)
    unknown = sorted(str(key) for key in value.keys() - ANSWER_KEYS)
    if unknown:
        return failed(
            f"the returned object has `status_code` or `error`, which makes it an answer, and answers have no "
            f"{', '.join(unknown[:5])}; put data under `output`"
        )
    status, error = value.get("status_code"), value.get("error")
    if status is not None and (isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599):
        return failed(f"the answer's status_code is {status!r}; it must be an integer from 200 to 599")
    if error is not None and not isinstance(error, str):
        return failed("the answer's error must be a string or null")
    if error or (status is not None and status >= 400):
        # An error beside a status that means success contradicts itself; the failure is what counts.
        code = status if status is not None and status >= 400 else None
        return failed(error or f"the job answered with status {status}", status_code=code)
    return RunResult(ProgressStatus.COMPLETED, output=value.get("output"), status_code=status)


def kept_result(result: RunResult) -> tuple[RunResult, bytes | None]:
    """A result as it can be recorded, and its encoded output; None where it has none.

    An output that is no JSON, or too large to keep, makes the run failed: a run ends truthfully even then. An error is
    one line without secrets, whichever engine it is of.
    """
    if result.status is ProgressStatus.COMPLETED:
        if result.output is None:
            return result, None
        try:
            return result, encode(result.output, INLINE_PAYLOAD_BYTES)
        except ValueRefused as error:
            large = error.code == "value_too_large"
            return failed(
                f"the output cannot be kept: {error}",
                failure_class=FailureClass.RESULT_STORE_ERROR if large else None,
            ), None
    if result.status not in LAST_EVENT:
        return failed(f"the engine ended with status {result.status!r}"), None
    return result if result.error is None else replace(result, error=one_line(result.error)), None
