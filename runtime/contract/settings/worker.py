"""Settings of a push worker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, NamedTuple, Self

from runtime.contract import limits, names
from runtime.contract.alignment import Alignment
from runtime.contract.forbidden import Role, scan
from runtime.contract.settings import rules, shared
from runtime.contract.settings.callbacks import CallbackSettings, read_callbacks, render_callbacks
from runtime.contract.settings.engines import DEFAULT_ENGINES, VARIABLE, read_engines, render_engines
from runtime.contract.settings.http_hosts import HTTP_HOSTS, read_http_hosts, render_http_hosts
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import in_seconds, whole_seconds
from runtime.contract.settings.run_memory import (
    DEFAULT_RUN_MEMORY,
    RUN_MEMORY,
    read_run_memory,
    render_run_memory,
)
from runtime.contract.settings.store import StoreSettings, read_collection, read_store, render_store
from runtime.contract.settings.tracing import NO_TRACES, TracingSettings, read_tracing, render_tracing
from runtime.contract.settings.verifying_keys import (
    DEFAULT_KEY_ID,
    PreviousKey,
    read_verifying_keys,
    render_verifying_keys,
)
from runtime.contract.settings.words import LogLevel, PushAuth, Workload
from runtime.contract.settings.worker_push import read_push
from runtime.contract.settings.worker_sql import SqlSettings, read_sql, render_sql
from runtime.contract.settings.worker_timeouts import read_attempts, read_worker_timeouts, run_timeout_variable


class WorkerSettings(NamedTuple):
    """What a push worker needs to know, checked.

    Attributes:
        workload: what its messages are.
        project_id: id of the project that everything is in.
        subscription: full name, `projects/P/subscriptions/S`; deliveries of any other are refused.
        push_audience: audience of the push tokens; None derives it from the request's Host.
        push_service_account: e-mail of the only identity that may push.
        push_auth: who checks the push tokens.
        key_grace: how long known signing keys are used beyond their hour while new ones cannot be fetched; 0: not.
        port: the container's one port.
        ack_deadline: the subscription's, i.e. how long the broker waits for an answer.
        request_timeout: the service's, after which the platform answers.
        run_timeout: longest a run (or compilation) may take inside one delivery.
        process_timeout: deadline of a delivery, from its arrival: parking and work share it.
        heartbeat: how often a claim is renewed.
        stale_after: age of the last heartbeat at which another delivery may take a claim over.
        claim_retention: how long a claim is kept after its last write.
        claims_collection: name without the prefix.
        files_collection: name without the prefix; file tracking only.
        content_bucket: bucket of the object events; None where the workload reads none.
        sql: the database that file tracking counts in; None for every other workload.
        database: Firestore database.
        collection_prefix: put in front of every collection's name; may be empty.
        store_retries: retries of one call to the store.
        max_attempts: ceiling of the attempts that worked on a message.
        broker_attempts: the subscription's max_delivery_attempts; None where it was not rendered.
        backend_pub: base64 of the PEM of the key that verifies jobs; "" where the workload runs none.
        backend_kid: id of that key.
        previous_key: a second key that verifies jobs; None where there is none.
        api_base_url: where lease, progress and events go; "" where the workload runs no jobs.
        engines: engine name -> `module.path:function`, or "" for the built-in flow engine.
        http_hosts: hosts that flows may send requests to, names or `*.NAME`; None: any public host.
        run_memory: MiB that the process of one run may have; 0: no limit. Flows have limits of their own.
        batch_interval: longest an event waits for its batch; 0 sends each event at once.
        batch_size: most events in a batch, 1 to 1000.
        callback_timeout: limit of one callback request.
        callback_retries: tries after the first; 0: none.
        tracing: where spans go.
        log_level: least severe line that is written.
    """

    workload: Workload
    project_id: str
    subscription: str
    push_service_account: str
    push_audience: str | None = None
    push_auth: PushAuth = PushAuth.PLATFORM
    key_grace: timedelta = timedelta()
    port: int = 8080
    ack_deadline: timedelta = timedelta(seconds=600)
    request_timeout: timedelta = timedelta(seconds=3600)
    run_timeout: timedelta = timedelta(seconds=540)
    process_timeout: timedelta = timedelta(seconds=1140)
    heartbeat: timedelta = timedelta(seconds=30)
    stale_after: timedelta = timedelta(seconds=180)
    claim_retention: timedelta = timedelta(seconds=86400)
    claims_collection: str = names.CLAIMS
    files_collection: str = "files"
    content_bucket: str | None = None
    sql: SqlSettings | None = None
    database: str = "(default)"
    collection_prefix: str = ""
    store_retries: int = 8
    max_attempts: int = 3
    broker_attempts: int | None = None
    backend_pub: str = ""
    backend_kid: str = DEFAULT_KEY_ID
    previous_key: PreviousKey | None = None
    api_base_url: str = ""
    engines: Mapping[str, str] = DEFAULT_ENGINES
    http_hosts: tuple[str, ...] | None = None
    run_memory: int = DEFAULT_RUN_MEMORY
    batch_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 100
    callback_timeout: timedelta = timedelta(seconds=5)
    callback_retries: int = 3
    tracing: TracingSettings = NO_TRACES
    log_level: LogLevel = LogLevel.INFO

    @property
    def role(self) -> Literal[Role.WORKER]:
        """Whose settings they are."""
        return Role.WORKER

    @property
    def run_lease(self) -> timedelta:
        """How long a run's lease is taken for; it lapses a heartbeat before its claim goes stale."""
        return self.stale_after - self.heartbeat

    @property
    def lease_renewal(self) -> timedelta:
        """How often a run's lease is renewed."""
        return min(timedelta(seconds=60), self.run_lease / 3)

    @property
    def park_budget(self) -> timedelta:
        """Longest a delivery waits for another that holds its claim."""
        return min(self.stale_after, self.process_timeout)

    @property
    def cut_off(self) -> int:
        """Broker deliveries after which a dead-lettered message is acknowledged."""
        if self.broker_attempts is not None:
            return self.broker_attempts
        return max(self.max_attempts, limits.BROKER_ATTEMPTS_MIN)

    def alignment(self) -> Alignment:
        """What the timeout rules need to know of the environment; the caller adds what it knows of the resources."""
        return Alignment(
            request_env=whole_seconds(self.request_timeout),
            process=whole_seconds(self.process_timeout),
            run=whole_seconds(self.run_timeout) if self.workload.runs_jobs else None,
            ack_env=whole_seconds(self.ack_deadline),
            heartbeat=whole_seconds(self.heartbeat),
            stale_after=whole_seconds(self.stale_after),
            claim_retention=whole_seconds(self.claim_retention),
            ceiling=self.max_attempts,
            broker_env=self.broker_attempts or 0,
            audience_env=self.push_audience or "",
        )

    def validated(self) -> Self:
        """The same settings, checked as the worker's own start checks them.

        Raises:
            SettingsError: with every fault.
        """
        return self.from_env(self.to_env())

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Reads and checks an environment.

        Raises:
            SettingsError: with every fault.
        """
        reader = EnvironmentReader(env)
        reader.extend(scan(env, _role(reader)))
        workload = _read_workload(reader)
        executes = workload is Workload.EXECUTION
        project_id = shared.read_project(reader)
        push = read_push(reader, project_id)
        port = shared.read_port(reader)
        timeouts = read_worker_timeouts(reader, workload)
        settings = cls(
            workload=workload or Workload.EXECUTION,
            project_id=project_id,
            **push,
            port=port,
            **timeouts,
            claims_collection=read_collection(reader, "FIRESTORE_CLAIMS_COLLECTION", names.CLAIMS),
            files_collection=read_collection(reader, "FIRESTORE_FILES_COLLECTION", "files"),
            content_bucket=_read_bucket(reader, workload),
            **read_attempts(reader, timeouts),
            **read_store(reader),
            sql=read_sql(reader) if workload is Workload.FILE_TRACKING else None,
            **read_verifying_keys(reader, required=executes),
            api_base_url=shared.read_address(reader, "API_BASE_URL", "invalid_base_url", required=executes) or "",
            engines=read_engines(reader),
            http_hosts=read_http_hosts(reader),
            run_memory=read_run_memory(reader),
            **read_callbacks(reader),
            tracing=read_tracing(reader, project_id),
            log_level=shared.read_log_level(reader),
        )
        reader.finish()
        return settings

    def to_env(self) -> dict[str, str]:
        """The environment that `from_env` reads back, `PORT` included."""
        env = {
            "GCP_QUEUE_WORKLOAD": str(self.workload),
            "GCP_PROJECT_ID": self.project_id,
            "PUBSUB_SUBSCRIPTION": self.subscription,
            "PUBSUB_PUSH_AUDIENCE": self.push_audience,
            "PUBSUB_PUSH_SERVICE_ACCOUNT": self.push_service_account,
            "PUBSUB_PUSH_AUTH": str(self.push_auth),
            "PUBSUB_PUSH_KEY_GRACE_SECS": in_seconds(self.key_grace),
            "PORT": str(self.port),
            "GCP_QUEUE_ACK_DEADLINE_SECS": in_seconds(self.ack_deadline),
            "GCP_QUEUE_REQUEST_TIMEOUT_SECS": in_seconds(self.request_timeout),
            run_timeout_variable(self.workload): in_seconds(self.run_timeout),
            "GCP_QUEUE_PROCESS_TIMEOUT_SECS": in_seconds(self.process_timeout),
            "GCP_QUEUE_CLAIM_HEARTBEAT_SECS": in_seconds(self.heartbeat),
            "GCP_QUEUE_CLAIM_STALE_AFTER_SECS": in_seconds(self.stale_after),
            "GCP_QUEUE_CLAIM_RETENTION_SECS": in_seconds(self.claim_retention),
            **render_store(
                StoreSettings(
                    database=self.database, collection_prefix=self.collection_prefix, store_retries=self.store_retries
                )
            ),
            **({} if self.sql is None else render_sql(self.sql)),
            "FIRESTORE_CLAIMS_COLLECTION": self.claims_collection,
            "FIRESTORE_FILES_COLLECTION": self.files_collection,
            "GCP_CONTENT_BUCKET": self.content_bucket,
            "GCP_QUEUE_MAX_DELIVERY_ATTEMPTS": str(self.max_attempts),
            "GCP_QUEUE_BROKER_MAX_ATTEMPTS": None if self.broker_attempts is None else str(self.broker_attempts),
            **render_verifying_keys(self.backend_pub, self.backend_kid, self.previous_key),
            "API_BASE_URL": self.api_base_url,
            VARIABLE: render_engines(self.engines),
            HTTP_HOSTS: render_http_hosts(self.http_hosts),
            RUN_MEMORY: render_run_memory(self.run_memory),
            **render_callbacks(
                CallbackSettings(
                    batch_interval=self.batch_interval,
                    batch_size=self.batch_size,
                    callback_timeout=self.callback_timeout,
                    callback_retries=self.callback_retries,
                )
            ),
            **render_tracing(self.tracing),
            "LOG_LEVEL": str(self.log_level),
        }
        return {name: value for name, value in env.items() if value}


def _role(env: EnvironmentReader) -> Role:
    tracks_files = (env.optional("GCP_QUEUE_WORKLOAD") or "").lower() == Workload.FILE_TRACKING
    return Role.FILE_TRACKING_WORKER if tracks_files else Role.WORKER


def _read_workload(env: EnvironmentReader) -> Workload | None:
    name = "GCP_QUEUE_WORKLOAD"
    value = env.required(name, Workload.EXECUTION)
    if value is None:
        return None
    try:
        return Workload(value.lower())
    except ValueError:
        env.refuse(name, "invalid_workload", f"must be one of {', '.join(Workload)}", Workload.EXECUTION)
        return None


def _read_bucket(env: EnvironmentReader, workload: Workload | None) -> str | None:
    name = "GCP_CONTENT_BUCKET" if env.optional("GCP_CONTENT_BUCKET") else "CONTENT_BUCKET"
    value = env.optional(name)
    if value is None:
        if workload is not None and workload.reads_object_events:
            env.required("GCP_CONTENT_BUCKET", "my-content")
        return None
    return env.text(name, rules.BUCKET_RULE, "invalid_bucket_name", rules.is_bucket, "my-content")
