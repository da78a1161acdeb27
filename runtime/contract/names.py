"""Names that both sides of a wire must spell alike."""

from __future__ import annotations

from typing import Final

PRODUCT: Final = "holdfast"

JOB_ISSUER: Final = "holdfast"
JOB_AUDIENCE: Final = "holdfast-executor"
JOB_TOKEN_TYPE: Final = "executor"
DISPATCH_HASH_DOMAIN: Final = b"holdfast-dispatch/v1"

MESSAGE_VERSION: Final = 1
"""`v` of a dispatch message's data."""

GOOGLE_ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")
GOOGLE_KEYS_URL: Final = "https://www.googleapis.com/oauth2/v3/certs"
METADATA_URL: Final = "http://metadata.google.internal/computeMetadata/v1"
STRIPPED_SIGNATURE: Final = "SIGNATURE_REMOVED_BY_GOOGLE"
"""What Cloud Run leaves of a token's third part after its own invoker check."""

SCOPE_DATASTORE: Final = "https://www.googleapis.com/auth/datastore"
SCOPE_PUBSUB: Final = "https://www.googleapis.com/auth/pubsub"

CALLBACK_EVENTS_PATH: Final = "/api/v1/execution/events"
CALLBACK_PROGRESS_PATH: Final = "/api/v1/execution/progress"
CALLBACK_CANCELLATION_PATH: Final = "/api/v1/execution/cancellation"
TICK_PATH: Final = "/internal/tick"
DEAD_LETTERS_PATH: Final = "/internal/dead-letters"
DEAD_LETTER_SOURCE: Final = "source"
"""Member of that path's query: the workload whose dead letters are pushed, which the messages do not say."""

HEALTH: Final = "/health"
HEALTH_LIVE: Final = "/health/live"
HEALTH_READY: Final = "/health/ready"
METRICS: Final = "/metrics"

DEAD_LETTERED: Final = "pubsub_message_dead_lettered"
KEYS_NOT_REFRESHED: Final = "push_key_refresh_failed"
"""Log events that alerts look for."""

RUNS: Final = "runs"
RUN_PAYLOADS: Final = "run_payloads"
RUN_RESULTS: Final = "run_results"
RUN_EVENTS: Final = "run_events"
API_KEYS: Final = "api_keys"
DEAD_LETTERS: Final = "dead_letters"
DEAD_LETTER_PAYLOADS: Final = "dead_letter_payloads"
CLAIMS: Final = "pubsub-claims"
"""Default of `FIRESTORE_CLAIMS_COLLECTION`."""

TTL_FIELD: Final = "expires_at_ts"
"""The one field that a TTL policy watches; written on every write of a document that may go, compared by no reader."""

TTL_COLLECTIONS: Final = (
    RUNS, RUN_PAYLOADS, RUN_RESULTS, RUN_EVENTS, DEAD_LETTERS, DEAD_LETTER_PAYLOADS, CLAIMS,
)  # fmt: skip
"""Collections that have a TTL policy."""

INDEXES: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    (RUN_EVENTS, (("run_id", "ASCENDING"), ("last_sequence", "ASCENDING"))),
    (RUNS, (("state", "ASCENDING"), ("created_at", "DESCENDING"))),
    (DEAD_LETTERS, (("source", "ASCENDING"), ("failed_at", "DESCENDING"))),
    (DEAD_LETTERS, (("failure_class", "ASCENDING"), ("failed_at", "DESCENDING"))),
)
"""Composite indexes that the services' queries need: (collection, ((field, direction), ...)).
A query on one field alone, equality or range, needs none."""

ATTRIBUTE_RUN_ID: Final = "run_id"
ATTRIBUTE_JOB_ID: Final = "job_id"


def job_id(run_id: str, generation: int) -> str:
    """The broker job of one generation of a run: `run_id.generation`."""
    return f"{run_id}.{generation}"


def service_host(service: str, project_number: str, region: str) -> str:
    """Deterministic host of a Cloud Run service, known before the service exists."""
    return f"{service}-{project_number}.{region}.run.app"


def service_url(service: str, project_number: str, region: str) -> str:
    """Deterministic address of a Cloud Run service: also its push endpoint, its audience and its base URL."""
    return f"https://{service_host(service, project_number, region)}"
