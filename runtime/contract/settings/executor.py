"""Settings of the executor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal, NamedTuple, Self

from runtime.contract.forbidden import Role, scan
from runtime.contract.settings import rules, shared
from runtime.contract.settings.callbacks import CallbackSettings, read_callbacks, render_callbacks
from runtime.contract.settings.engines import DEFAULT_ENGINES, VARIABLE, read_engines, render_engines
from runtime.contract.settings.http_hosts import HTTP_HOSTS, read_http_hosts, render_http_hosts
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import in_seconds
from runtime.contract.settings.run_memory import (
    DEFAULT_RUN_MEMORY,
    RUN_MEMORY,
    read_run_memory,
    render_run_memory,
)
from runtime.contract.settings.tracing import NO_TRACES, TracingSettings, read_tracing, render_tracing
from runtime.contract.settings.verifying_keys import (
    DEFAULT_KEY_ID,
    PreviousKey,
    read_verifying_keys,
    render_verifying_keys,
)
from runtime.contract.settings.words import LogLevel
from runtime.contract.timeout_rules.service import RUN_MAX

DEFAULT_RUN_TIMEOUT: Final = 3540
"""Seconds; leaves a minute of the longest request."""


class ExecutorSettings(NamedTuple):
    """What the executor needs to know, checked.

    Attributes:
        backend_pub: base64 of the PEM of the key that verifies jobs.
        backend_kid: id of that key.
        previous_key: a second key that verifies jobs; None where there is none.
        port: the container's one port.
        run_timeout: longest a run may take, 1 to 3570 s.
        engines: engine name -> `module.path:function`, or "" for the built-in flow engine.
        http_hosts: hosts that flows may send requests to, names or `*.NAME`; None: any public host.
        run_memory: MiB that the process of one run may have; 0: no limit. Flows have limits of their own.
        batch_interval: longest an event waits for its batch; 0 sends each event at once.
        batch_size: most events in a batch, 1 to 1000.
        callback_timeout: limit of one callback request.
        callback_retries: tries after the first; 0: none.
        project_id: for the trace links of log lines; None leaves them out.
        tracing: where spans go.
        log_level: least severe line that is written.
    """

    backend_pub: str
    backend_kid: str = DEFAULT_KEY_ID
    previous_key: PreviousKey | None = None
    port: int = 8080
    run_timeout: timedelta = timedelta(seconds=DEFAULT_RUN_TIMEOUT)
    engines: Mapping[str, str] = DEFAULT_ENGINES
    http_hosts: tuple[str, ...] | None = None
    run_memory: int = DEFAULT_RUN_MEMORY
    batch_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 100
    callback_timeout: timedelta = timedelta(seconds=5)
    callback_retries: int = 3
    project_id: str | None = None
    tracing: TracingSettings = NO_TRACES
    log_level: LogLevel = LogLevel.INFO

    @property
    def role(self) -> Literal[Role.EXECUTOR]:
        """Whose settings they are."""
        return Role.EXECUTOR

    def validated(self) -> Self:
        """The same settings, checked as the executor's own start checks them.

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
        reader.extend(scan(env, Role.EXECUTOR))
        _check_mode(reader)
        project_id = _read_project(reader)
        settings = cls(
            port=shared.read_port(reader),
            **read_verifying_keys(reader, required=True),
            **read_callbacks(reader),
            run_timeout=reader.seconds("EXECUTOR_TIMEOUT_SECS", 1, RUN_MAX, DEFAULT_RUN_TIMEOUT),
            engines=read_engines(reader),
            http_hosts=read_http_hosts(reader),
            run_memory=read_run_memory(reader),
            project_id=project_id,
            tracing=read_tracing(reader, project_id),
            log_level=shared.read_log_level(reader),
        )
        reader.finish()
        return settings

    def to_env(self) -> dict[str, str]:
        """The environment that `from_env` reads back, `PORT` included."""
        env = {
            "EXECUTOR_SERVER_MODE": "true",
            "PORT": str(self.port),
            **render_verifying_keys(self.backend_pub, self.backend_kid, self.previous_key),
            **render_callbacks(
                CallbackSettings(
                    batch_interval=self.batch_interval,
                    batch_size=self.batch_size,
                    callback_timeout=self.callback_timeout,
                    callback_retries=self.callback_retries,
                )
            ),
            "EXECUTOR_TIMEOUT_SECS": in_seconds(self.run_timeout),
            VARIABLE: render_engines(self.engines),
            HTTP_HOSTS: render_http_hosts(self.http_hosts),
            RUN_MEMORY: render_run_memory(self.run_memory),
            "GCP_PROJECT_ID": self.project_id,
            **render_tracing(self.tracing),
            "LOG_LEVEL": str(self.log_level),
        }
        return {name: value for name, value in env.items() if value is not None}


def _check_mode(env: EnvironmentReader) -> None:
    mode = env.raw("EXECUTOR_SERVER_MODE")
    if mode is not None and mode.lower() not in {"1", "true"}:
        rule = "any value but `1` or `true` asks for one job and an exit, and this service only serves; leave it unset"
        env.refuse("EXECUTOR_SERVER_MODE", "invalid_server_mode", rule, "true")
    if env.raw("METRICS_PORT") is not None:
        detail = "METRICS_PORT is set, but a container has one port and /metrics is served on PORT; remove it"
        env.fault("METRICS_PORT", "forbidden_metrics_port", detail)


def _read_project(env: EnvironmentReader) -> str | None:
    if env.optional("GCP_PROJECT_ID") is None:
        return None
    return env.text("GCP_PROJECT_ID", rules.PROJECT_RULE, "invalid_project_id", rules.is_project_id, "my-project")
