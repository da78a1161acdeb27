"""Settings of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Final, Literal, Self

from runtime.contract import limits
from runtime.contract.forbidden import Role, scan
from runtime.contract.settings import job_keys, rules, shared
from runtime.contract.settings.api_keys import NO_KEYS, read_key_hashes, render_key_hashes
from runtime.contract.settings.engines import DEFAULT_ENGINES, VARIABLE, read_engines, render_engines
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import in_seconds
from runtime.contract.settings.store import StoreSettings, read_store, render_store
from runtime.contract.settings.tracing import NO_TRACES, TracingSettings, read_tracing, render_tracing
from runtime.contract.settings.verifying_keys import (
    DEFAULT_KEY_ID,
    PreviousKey,
    read_verifying_keys,
    render_verifying_keys,
)
from runtime.contract.settings.words import ExecutionBackend, ExecutorAuth, LogLevel, StateBackend
from runtime.contract.timeout_rules.service import RUN_MAX

MESSAGE_RETENTION_MAX: Final = 31 * 86400
"""Pub/Sub: longest message retention of a topic, seconds."""
_EXECUTOR_TIMEOUT_MAX: Final = "API_EXECUTOR_TIMEOUT_MAX_SECS"
TOKEN_LIFE_MAX: Final = MESSAGE_RETENTION_MAX + limits.REQUEST_TIMEOUT_MAX + 300


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiSettings:
    """What the API needs to know, checked.

    Attributes:
        project_id: id of the project that everything is in.
        base_url: the API's own address: base of the callbacks, audience of the `/internal/` routes.
        topic: full name, `projects/P/topics/T`, of the execution jobs.
        backend_key: base64 of the PEM of the key that signs jobs; None only while a program is planned and the
            secret manager holds it. Never shown.
        backend_pub: base64 of the PEM of its public key.
        backend_kid: id of that key.
        previous_key: a second key that verifies jobs; None where there is none.
        tick_service_account: e-mail of the only identity that may call the sweeper.
        dead_letter_service_account: e-mail of the only identity that may push dead letters; None closes the route.
        port: the container's one port.
        request_timeout: the service's, after which the platform answers.
        execution_backend: how synchronous runs are executed; NONE refuses them.
        executor_url: the executor's address; None where `execution_backend` is NONE.
        executor_auth: how the API proves itself to the executor.
        state_backend: where run records live.
        database: Firestore database.
        collection_prefix: put in front of every collection's name; may be empty.
        store_retries: retries of one call to the store.
        run_lease: lease of a synchronous run, and the longest that a worker may ask for.
        job_token_life: from signing to expiry of a job's token.
        run_timeout_max: longest `timeout` that a queued run may ask for.
        executor_timeout_max: longest `timeout` that a run may ask for whose caller waits for it; not longer than the
            executor's own.
        max_attempts: largest `max_attempts` that a run may ask for.
        max_queue_age: age at which a run that was never finished expires.
        run_retention: how long a run is kept after its last write.
        key_hashes: name of an API key -> SHA-256 of the key's secret part, lower case hexadecimal; may be empty.
        engines: engine name -> `module.path:function`, or "" for the built-in flow engine.
        tracing: where spans go.
        log_level: least severe line that is written.
    """

    role: ClassVar[Literal[Role.API]] = Role.API

    project_id: str
    base_url: str
    topic: str
    backend_key: str | None = field(repr=False)
    backend_pub: str
    tick_service_account: str
    backend_kid: str = DEFAULT_KEY_ID
    previous_key: PreviousKey | None = None
    dead_letter_service_account: str | None = None
    port: int = 8080
    request_timeout: timedelta = timedelta(seconds=3600)
    execution_backend: ExecutionBackend = ExecutionBackend.NONE
    executor_url: str | None = None
    executor_auth: ExecutorAuth = ExecutorAuth.GCP_ID_TOKEN
    state_backend: StateBackend = StateBackend.FIRESTORE
    database: str = "(default)"
    collection_prefix: str = ""
    store_retries: int = 8
    run_lease: timedelta = timedelta(seconds=150)
    job_token_life: timedelta = timedelta(seconds=87300)
    run_timeout_max: timedelta = timedelta(seconds=540)
    executor_timeout_max: timedelta = timedelta(seconds=3540)
    max_attempts: int = 3
    max_queue_age: timedelta = timedelta(seconds=86400)
    run_retention: timedelta = timedelta(seconds=604800)
    key_hashes: Mapping[str, str] = field(default_factory=lambda: NO_KEYS, repr=False)
    engines: Mapping[str, str] = field(default_factory=lambda: DEFAULT_ENGINES)
    tracing: TracingSettings = NO_TRACES
    log_level: LogLevel = LogLevel.INFO

    def validated(self) -> Self:
        """The same settings, checked as the API's own start checks them; a `backend_key` of None is allowed.

        Raises:
            SettingsError: with every fault.
        """
        return self._read(self.to_env(), key_required=False)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Reads and checks an environment.

        Raises:
            SettingsError: with every fault.
        """
        return cls._read(env, key_required=True)

    @classmethod
    def _read(cls, env: Mapping[str, str], *, key_required: bool) -> Self:
        reader = EnvironmentReader(env)
        reader.extend(scan(env, Role.API))
        project_id = shared.read_project(reader)
        backend = reader.word("EXECUTION_BACKEND", ExecutionBackend, "invalid_execution_backend", ExecutionBackend.NONE)
        settings = cls(
            project_id=project_id,
            port=shared.read_port(reader),
            request_timeout=reader.seconds("API_REQUEST_TIMEOUT_SECS", 60, limits.REQUEST_TIMEOUT_MAX, 3600),
            base_url=shared.read_address(reader, "API_BASE_URL", "invalid_base_url", required=True) or "",
            topic=_read_topic(reader, project_id),
            backend_key=_read_private_key(reader, required=key_required),
            **read_verifying_keys(reader, required=True),
            execution_backend=backend,
            executor_url=shared.read_address(
                reader, "EXECUTOR_URL", "invalid_executor_url", required=backend is ExecutionBackend.HTTP
            ),
            executor_auth=reader.word(
                "EXECUTOR_AUTH", ExecutorAuth, "invalid_executor_auth", ExecutorAuth.GCP_ID_TOKEN
            ),
            state_backend=reader.word(
                "EXECUTION_STATE_BACKEND", StateBackend, "invalid_state_backend", StateBackend.FIRESTORE
            ),
            **read_store(reader),
            run_lease=reader.seconds("API_RUN_LEASE_SECS", 15, 3600, 150),
            job_token_life=reader.seconds("API_JOB_TOKEN_LIFE_SECS", 600, TOKEN_LIFE_MAX, 87300),
            run_timeout_max=reader.seconds("API_RUN_TIMEOUT_MAX_SECS", 1, RUN_MAX, 540),
            executor_timeout_max=reader.seconds(_EXECUTOR_TIMEOUT_MAX, 1, RUN_MAX, 3540),
            max_attempts=reader.number("API_MAX_ATTEMPTS", 1, 100, 3),
            max_queue_age=reader.seconds("API_MAX_QUEUE_AGE_SECS", 60, MESSAGE_RETENTION_MAX, 86400),
            run_retention=reader.seconds("API_RUN_RETENTION_SECS", 3600, 365 * 86400, 604800),
            tick_service_account=shared.read_account(
                reader, "API_TICK_SERVICE_ACCOUNT", "invalid_tick_service_account", required=True
            )
            or "",
            dead_letter_service_account=shared.read_account(
                reader, "API_DEAD_LETTER_SERVICE_ACCOUNT", "invalid_dead_letter_service_account", required=False
            ),
            key_hashes=read_key_hashes(reader),
            engines=read_engines(reader),
            tracing=read_tracing(reader, project_id),
            log_level=shared.read_log_level(reader),
        )
        _check_wait(reader, settings)
        reader.finish()
        return settings

    def to_env(self) -> dict[str, str]:
        """The environment that `from_env` reads back, `PORT` and the secret included."""
        env = {
            "GCP_PROJECT_ID": self.project_id,
            "EXECUTION_BACKEND": str(self.execution_backend),
            "PORT": str(self.port),
            "API_REQUEST_TIMEOUT_SECS": in_seconds(self.request_timeout),
            "API_BASE_URL": self.base_url,
            "EXECUTION_TOPIC": self.topic,
            "BACKEND_KEY": self.backend_key,
            **render_verifying_keys(self.backend_pub, self.backend_kid, self.previous_key),
            "EXECUTOR_URL": self.executor_url,
            "EXECUTOR_AUTH": str(self.executor_auth),
            "EXECUTION_STATE_BACKEND": str(self.state_backend),
            **render_store(
                StoreSettings(
                    database=self.database, collection_prefix=self.collection_prefix, store_retries=self.store_retries
                )
            ),
            "API_RUN_LEASE_SECS": in_seconds(self.run_lease),
            "API_JOB_TOKEN_LIFE_SECS": in_seconds(self.job_token_life),
            "API_RUN_TIMEOUT_MAX_SECS": in_seconds(self.run_timeout_max),
            _EXECUTOR_TIMEOUT_MAX: in_seconds(self.executor_timeout_max),
            "API_MAX_ATTEMPTS": str(self.max_attempts),
            "API_MAX_QUEUE_AGE_SECS": in_seconds(self.max_queue_age),
            "API_RUN_RETENTION_SECS": in_seconds(self.run_retention),
            "API_TICK_SERVICE_ACCOUNT": self.tick_service_account,
            "API_DEAD_LETTER_SERVICE_ACCOUNT": self.dead_letter_service_account,
            "API_KEY_HASHES": render_key_hashes(self.key_hashes),
            VARIABLE: render_engines(self.engines),
            **render_tracing(self.tracing),
            "LOG_LEVEL": str(self.log_level),
        }
        return {name: value for name, value in env.items() if value}


def _check_wait(env: EnvironmentReader, settings: ApiSettings) -> None:
    """A caller who waits for the longest run learns how it ended before the API's own request is cut."""
    if settings.execution_backend is not ExecutionBackend.HTTP:
        return
    latest = settings.request_timeout - timedelta(seconds=limits.SETTLE_BUDGET)
    if settings.executor_timeout_max > latest and env.good(_EXECUTOR_TIMEOUT_MAX, "API_REQUEST_TIMEOUT_SECS"):
        seconds = in_seconds(latest)
        env.fault(
            _EXECUTOR_TIMEOUT_MAX,
            "executor_timeout_too_long",
            f"{_EXECUTOR_TIMEOUT_MAX} is {in_seconds(settings.executor_timeout_max)}, but a run must end "
            f"{limits.SETTLE_BUDGET} s before API_REQUEST_TIMEOUT_SECS, which is "
            f"{in_seconds(settings.request_timeout)}; for example {_EXECUTOR_TIMEOUT_MAX}={seconds}",
        )


def _read_topic(env: EnvironmentReader, project_id: str) -> str:
    name = "EXECUTION_TOPIC"
    value = env.required(name, "execution-jobs")
    if value is None or not env.good("GCP_PROJECT_ID"):
        return ""
    full = rules.canonical_name(value, project_id, "topics")
    if full is None:
        env.refuse(name, "invalid_topic", rules.RESOURCE_RULE, "execution-jobs")
    return full or ""


def _read_private_key(env: EnvironmentReader, *, required: bool) -> str | None:
    name = "BACKEND_KEY"
    if env.optional(name) is None:
        if required:
            env.required(name, job_keys.PASSING)
        return None
    value = env.raw(name) or ""
    if not job_keys.is_private_key(value):
        env.refuse(name, "invalid_backend_key", job_keys.PRIVATE_RULE, job_keys.PASSING, secret=True)
    return value
