"""What the API is given; nothing in this role is made from a name or an address."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.api.executor_client import ExecutorClient
from runtime.api.run_request import EngineCatalogue
from runtime.contract.settings.api import ApiSettings
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.push_token import PushVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.server import Lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDeps:
    """Everything the API needs, open; the application closes `documents` and `publisher` when it ends.

    Attributes:
        settings: checked.
        documents: where runs and keys are.
        publisher: of job messages.
        service_tokens: in process, of the scheduler's account alone.
        signer: of job tokens.
        verifier: of job tokens.
        engines: of the workers.
        clock: the only time.
        lifecycle: of the process.
        metrics: of the process.
        executor: None where every run is queued.
        letter_tokens: in process, of the account that pushes dead letters; None closes their route.
        tracing: of the process.
    """

    settings: ApiSettings
    documents: Documents
    publisher: Publisher
    service_tokens: PushVerifier
    signer: JobSigner
    verifier: JobVerifier
    engines: EngineCatalogue
    clock: Clock
    lifecycle: Lifecycle
    metrics: Metrics
    executor: ExecutorClient | None = None
    letter_tokens: PushVerifier | None = None
    tracing: Tracing = PASSED_ON
