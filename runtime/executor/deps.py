"""What the executor is given; nothing in this role is made from a name or an address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import Struct, field

from runtime.contract.settings.executor import ExecutorSettings
from runtime.execution.callback_messages import Callbacks
from runtime.execution.job import Job
from runtime.executor.channel import ChannelRules
from runtime.identity.job_token import JobVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.engine import Engine
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.server import Lifecycle


class ExecutorDeps(Struct, frozen=True, kw_only=True):
    """The parts of an executor that differ between production, the local sandbox and tests.

    Attributes:
        settings: checked.
        verifier: of the API's signatures.
        connect: the API's side of a job.
        engine: the engine of a name; None where there is none.
        clock: the only source of time.
        lifecycle: the process's.
        metrics: the process's.
        stop_engines: called once, when nothing runs any more.
        channel: bounds of a stream.
        drain_grace: how long runs may go on once the process drains, before they are ended.
        tracing: of the process.
    """

    settings: ExecutorSettings
    verifier: JobVerifier
    connect: Callable[[Job], Callbacks]
    engine: Callable[[str], Engine | None]
    clock: Clock
    lifecycle: Lifecycle
    metrics: Metrics
    stop_engines: Callable[[], Awaitable[None]]
    channel: ChannelRules = field(default_factory=ChannelRules)
    drain_grace: timedelta = timedelta(seconds=3)
    tracing: Tracing = PASSED_ON
