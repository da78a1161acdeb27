"""Rules of services and of those who call them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from runtime.contract import limits
from runtime.contract.alignment import Alignment, Finding, finding

RUN_MAX: Final = limits.REQUEST_TIMEOUT_MAX - limits.SETTLE_BUDGET
"""Longest run that the longest request can still settle, seconds."""

_SIGNED: Final = re.compile(
    r"https?://[^\s\"'<>]*[?&](?:x-goog-signature|x-amz-signature|signature|sig)=", re.IGNORECASE | re.ASCII
)


def t04(facts: Alignment) -> Iterator[Finding]:
    """A synchronous run ends early enough before its request is cut to say how it ended."""
    if facts.executor_run is None:
        return
    room = RUN_MAX if facts.executor_timeout is None else facts.executor_timeout - limits.SETTLE_BUDGET
    latest = min(RUN_MAX, room)
    if not 1 <= facts.executor_run <= RUN_MAX:
        rule = f"a run must take 1 to {RUN_MAX} s"
        yield finding("T04", facts, ("executor_run",), rule, max(1, latest))
    elif facts.executor_run > latest:
        rule = f"a run must end {limits.SETTLE_BUDGET} s before its request is cut"
        if latest >= 1:
            yield finding("T04", facts, ("executor_run", "executor_timeout"), rule, latest)
        else:
            passing = facts.executor_run + limits.SETTLE_BUDGET
            yield finding("T04", facts, ("executor_timeout", "executor_run"), rule, passing)


def t13(facts: Alignment) -> Iterator[Finding]:
    """An instance starts inside the platform's window, and drains before it is killed."""
    delay, period, failures = facts.startup_delay, facts.startup_period, facts.startup_failures
    if delay is not None and period is not None and failures is not None:
        window = delay + period * failures
        if window > limits.STARTUP_WINDOW_MAX:
            yield _shorter_window(facts, delay, period, window)
    if facts.drain is not None and facts.drain > limits.DRAIN_SECONDS:
        rule = f"an instance is killed {limits.DRAIN_SECONDS} s after it is told to stop"
        yield finding("T13", facts, ("drain",), rule, limits.DRAIN_SECONDS)


def _shorter_window(facts: Alignment, delay: int, period: int, window: int) -> Finding:
    longest = limits.STARTUP_WINDOW_MAX
    rule = f"a start has {longest} s, and delay + period x failures is {window} s"
    names = ("startup_failures", "startup_period", "startup_delay")
    if period > longest:
        return finding("T13", facts, ("startup_period", "startup_failures", "startup_delay"), rule, longest)
    if delay + period > longest:
        return finding("T13", facts, ("startup_delay", "startup_period", "startup_failures"), rule, longest - period)
    return finding("T13", facts, names, rule, (longest - delay) // period)


def t14(facts: Alignment) -> Iterator[Finding]:
    """Who calls a service does not wait for longer than it may answer."""
    for deadline, service in (("scheduler_deadline", "api_timeout"), ("dispatch_deadline", "service_timeout")):
        wait, timeout = facts.value(deadline), facts.value(service)
        if isinstance(wait, int) and isinstance(timeout, int) and wait > timeout:
            rule = "a caller must not wait for longer than the service may answer"
            yield finding("T14", facts, (deadline, service), rule, timeout)


def t16(facts: Alignment) -> Iterator[Finding]:
    """No signed URL waits in a queue: it would expire there, and whoever reads the queue could use it."""
    if facts.message_texts is not None and any(map(is_signed_url, facts.message_texts)):
        rule = "no signed URL may travel in a message; what a worker needs is fetched with the job's token"
        clean = tuple(text for text in facts.message_texts if not is_signed_url(text))
        # The values stay out of the finding: a signed URL is a credential.
        yield Finding("T16", ("message_texts",), (f"{len(facts.message_texts)} texts",), rule, clean)


def is_signed_url(text: str) -> bool:
    """Whether a text holds a URL with a storage provider's signature."""
    return _SIGNED.search(text) is not None


def t17(facts: Alignment) -> Iterator[Finding]:
    """The API waits for its executor, and answers a synchronous caller before it is cut itself."""
    if facts.api_timeout is None:
        return
    if facts.executor_timeout is not None and facts.api_timeout < facts.executor_timeout:
        rule = "the API must be able to wait for as long as the executor may answer"
        yield finding("T17", facts, ("api_timeout", "executor_timeout"), rule, facts.executor_timeout)
    latest = facts.api_timeout - limits.SETTLE_BUDGET
    if facts.sync_wait is not None and facts.sync_wait > latest:
        rule = f"a synchronous caller must be answered {limits.SETTLE_BUDGET} s before the API's request is cut"
        if latest >= 1:
            yield finding("T17", facts, ("sync_wait", "api_timeout"), rule, latest)
        else:
            passing = facts.sync_wait + limits.SETTLE_BUDGET
            yield finding("T17", facts, ("api_timeout", "sync_wait"), rule, passing)
