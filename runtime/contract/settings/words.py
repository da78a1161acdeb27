"""Closed words of the settings, one meaning per member."""

from __future__ import annotations

from enum import StrEnum


class Workload(StrEnum):
    """What a push worker works on."""

    EXECUTION = "execution"
    COMPILATION = "compilation"
    FILE_TRACKING = "file-tracking"
    MEDIA_TRANSFORMATION = "media-transformation"

    @property
    def runs_jobs(self) -> bool:
        """Whether one delivery carries one job with a time limit of its own."""
        return self in {Workload.EXECUTION, Workload.COMPILATION}

    @property
    def reads_object_events(self) -> bool:
        """Whether its messages are notifications of a bucket."""
        return self in {Workload.FILE_TRACKING, Workload.MEDIA_TRANSFORMATION}


class PushAuth(StrEnum):
    """Who checks the token of a push."""

    PLATFORM = "platform"
    """The platform's invoker check, then the worker's check of the claims; a replaced signature is accepted."""
    IN_PROCESS = "in_process"
    """The worker alone: only a full signature is accepted."""


class ExecutionBackend(StrEnum):
    """How synchronous runs are executed."""

    HTTP = "http"
    """By the executor service."""
    NONE = "none"
    """Not at all: only asynchronous runs are accepted."""


class ExecutorAuth(StrEnum):
    """How the API proves itself to the executor."""

    GCP_ID_TOKEN = "gcp_id_token"
    """With an OIDC token of its own service account."""


class StateBackend(StrEnum):
    """Where run records live."""

    FIRESTORE = "firestore"


class LogLevel(StrEnum):
    """Least severe line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
