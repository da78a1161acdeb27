"""The executor of a process, with what it opens of its own."""

from __future__ import annotations

import aiohttp

from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.version import VERSION
from runtime.execution.callbacks import CallbackRules, callbacks_of_jobs
from runtime.execution.opened_engines import open_engines
from runtime.executor.deps import ExecutorDeps
from runtime.identity.job_token import JobVerifier
from runtime.identity.keys import pem_of_environment
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.server import Lifecycle


async def open_executor(
    settings: ExecutorSettings,
    session: aiohttp.ClientSession,
    *,
    clock: Clock,
    lifecycle: Lifecycle,
    metrics: Metrics,
    tracing: Tracing = PASSED_ON,
) -> ExecutorDeps:
    """What the executor is given in a process of its own. Entry points are looked up before anything is served.

    Raises:
        EngineMissing: with every engine that is not there.
        UnusableKey: of BACKEND_PUB or BACKEND_PREVIOUS_PUB.
        ProcessUnavailable: no process can be started to look.
    """
    verifier = JobVerifier(pem_of_environment(settings.backend_pub), settings.backend_kid, settings.previous_key)
    opened = await open_engines(
        settings.engines,
        settings.http_hosts,
        clock,
        metrics.isolated_processes,
        run_memory=settings.run_memory,
    )
    rules = CallbackRules(version=VERSION, timeout=settings.callback_timeout, retries=settings.callback_retries)
    return ExecutorDeps(
        settings=settings,
        verifier=verifier,
        connect=callbacks_of_jobs(session, rules, clock, metrics),
        engine=opened.engines.get,
        clock=clock,
        lifecycle=lifecycle,
        metrics=metrics,
        stop_engines=opened.stop,
        tracing=tracing,
    )
