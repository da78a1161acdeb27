"""The roles of the one image: which settings each reads, and which service is made of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.forbidden import Role
from runtime.contract.settings.words import ExecutionBackend, LogLevel, PushAuth, Workload
from runtime.contract.version import VERSION
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.ports.tokens import KeySource, Tokens
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.server import Lifecycle, Service

if TYPE_CHECKING:  # a role loads no other role's
    from runtime.contract.settings.api import ApiSettings
    from runtime.contract.settings.executor import ExecutorSettings
    from runtime.contract.settings.worker import WorkerSettings
    from runtime.identity.key_cache import KeyCache


class WorkloadMissing(HoldfastError):
    """A workload that the settings allow and this version does not have."""

    code = "workload_not_available"


class RoleName(StrEnum):
    """What stands behind `python -m runtime`."""

    API = "api"
    EXECUTOR = "executor"
    WORKER = "worker"


Settings: TypeAlias = "ApiSettings | ExecutorSettings | WorkerSettings"


class KeysDiffer(HoldfastError):
    """The two halves of the signing key do not belong together."""

    code = "signing_keys_differ"


class Outside(Struct, frozen=True, kw_only=True):
    """A role's open connections to the world outside its process.

    Attributes:
        documents: the store; None for a role that keeps nothing. Closed with the application.
        publisher: of job messages; None for a role that never publishes. Closed with the application.
        tokens: of the account that the process runs as.
        session: for every address of the platform and of the deployment itself; closed by who opened it.
        key_source: Google's signing keys.
        tracing: of the process; closed by who opened it.
    """

    documents: Documents | None
    publisher: Publisher | None
    tokens: Tokens
    session: aiohttp.ClientSession
    key_source: KeySource
    tracing: Tracing = PASSED_ON


class Process(Struct, frozen=True, kw_only=True):
    """What a role has of its own process."""

    clock: Clock
    lifecycle: Lifecycle
    metrics: Metrics
    revision: str


def read_settings(role: RoleName, environ: Mapping[str, str]) -> Settings:
    """A role's settings, from exactly the given environment.

    Raises:
        SettingsError: with every fault.
    """
    match role:
        case RoleName.API:
            from runtime.contract.settings.api import ApiSettings

            return ApiSettings.from_env(environ)
        case RoleName.EXECUTOR:
            from runtime.contract.settings.executor import ExecutorSettings

            return ExecutorSettings.from_env(environ)
        case RoleName.WORKER:
            from runtime.contract.settings.worker import WorkerSettings

            return WorkerSettings.from_env(environ)


def service_name(settings: Settings) -> str:
    """What health routes and spans call the process."""
    return f"{settings.role}-{settings.workload}" if settings.role is Role.WORKER else settings.role


def log_level(settings: Settings) -> LogLevel:
    """The least severe line that the role writes."""
    return settings.log_level


async def build(settings: Settings, outside: Outside, process: Process) -> Service:
    """The service of a role. Each role imports only what it uses.

    Raises:
        HoldfastError: a self check failed; the process must not serve.
    """
    if settings.role is Role.API:
        return _build_api(settings, outside, process)
    if settings.role is Role.EXECUTOR:
        return await _build_executor(settings, outside, process)
    return await _build_worker(settings, outside, process)


def _build_api(settings: ApiSettings, outside: Outside, process: Process) -> Service:
    from runtime.api.app import create_app
    from runtime.api.deps import ApiDeps
    from runtime.api.executor_client import ExecutorClient
    from runtime.execution.registry import Engines
    from runtime.identity.job_token import JobSigner, JobVerifier
    from runtime.identity.key_cache import KeyCache
    from runtime.identity.keys import belong_together, pem_of_environment
    from runtime.identity.push_token import PushVerifier
    from runtime.runner import WebService

    if outside.documents is None or outside.publisher is None or settings.backend_key is None:
        raise RuntimeError("the API needs documents, a publisher and a signing key")
    private, public = pem_of_environment(settings.backend_key), pem_of_environment(settings.backend_pub)
    if not belong_together(private, public):
        raise KeysDiffer("BACKEND_PUB is not the public half of BACKEND_KEY: no worker would accept a job")
    keys = KeyCache(outside.key_source, process.clock)
    letter_account = settings.dead_letter_service_account
    executor = None
    if settings.execution_backend is ExecutionBackend.HTTP and settings.executor_url is not None:
        executor = ExecutorClient(
            outside.session, settings.executor_url, outside.tokens, process.clock, version=VERSION
        )
    app = create_app(
        ApiDeps(
            settings=settings,
            documents=outside.documents,
            publisher=outside.publisher,
            service_tokens=PushVerifier(PushAuth.IN_PROCESS, settings.tick_service_account, keys, process.clock),
            signer=JobSigner(private, settings.backend_kid),
            verifier=JobVerifier(public, settings.backend_kid, settings.previous_key),
            engines=Engines(settings.engines),
            clock=process.clock,
            lifecycle=process.lifecycle,
            metrics=process.metrics,
            executor=executor,
            letter_tokens=None
            if letter_account is None
            else PushVerifier(PushAuth.IN_PROCESS, letter_account, keys, process.clock),
            tracing=outside.tracing,
        )
    )
    app.cleanup_ctx.append(lambda _app: _kept_fresh(keys, process))
    return WebService(app)


async def _build_executor(settings: ExecutorSettings, outside: Outside, process: Process) -> Service:
    from runtime.executor.app import create_app
    from runtime.executor.opened import open_executor
    from runtime.runner import WebService

    deps = await open_executor(
        settings,
        outside.session,
        clock=process.clock,
        lifecycle=process.lifecycle,
        metrics=process.metrics,
        tracing=outside.tracing,
    )
    return WebService(create_app(deps))


async def _build_worker(settings: WorkerSettings, outside: Outside, process: Process) -> Service:
    from runtime.identity.key_cache import KeyCache
    from runtime.identity.push_token import PushVerifier
    from runtime.worker.app import WorkerApp, server_of
    from runtime.worker.deps import WorkerDeps
    from runtime.worker.workloads.execution import open_execution

    if outside.documents is None:
        raise RuntimeError("a worker needs documents")
    if settings.workload is not Workload.EXECUTION:
        raise WorkloadMissing(f"GCP_QUEUE_WORKLOAD={settings.workload}: this version works `{Workload.EXECUTION}` only")
    keys = KeyCache(outside.key_source, process.clock, settings.key_grace)
    workload = await open_execution(settings, outside.session, process.clock, process.metrics)
    deps = WorkerDeps(
        settings=settings,
        documents=outside.documents,
        push_verifier=PushVerifier(settings.push_auth, settings.push_service_account, keys, process.clock),
        workload=workload,
        clock=process.clock,
        lifecycle=process.lifecycle,
        metrics=process.metrics,
        tracing=outside.tracing,
        revision=process.revision,
    )
    return server_of(WorkerApp(deps, [asynccontextmanager(_kept_fresh)(keys, process)]), deps)


async def _kept_fresh(keys: KeyCache, process: Process) -> AsyncIterator[None]:
    """Keeps signing keys fresh for as long as the service runs; a start without keys fails."""
    import asyncio

    await keys.load()
    process.metrics.key_cache_age.set_function(lambda: keys.age or 0.0)
    refreshing = asyncio.create_task(keys.run(), name="refresh signing keys")
    yield
    refreshing.cancel()
    await asyncio.wait({refreshing})
