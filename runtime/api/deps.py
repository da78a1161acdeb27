"""What the API is given; nothing in this role is made from a name or an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runtime.api.dispatch import JobSigning
from runtime.api.run_request import EngineCatalogue
from runtime.contract.settings.api import ApiSettings
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.publisher import Publisher
from runtime.server import Lifecycle


class Claims(Protocol):
    """What a verified job token says."""

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    @property
    def job_id(self) -> str:
        """The broker job: one generation of the run."""
        ...


class JobVerification(Protocol):
    """Verifies job tokens of callbacks."""

    def verify_token(self, token: str, now: datetime) -> Claims:
        """The claims.

        Raises:
            JobRefused
        """
        ...


class ServiceTokens(Protocol):
    """Verifies Google tokens of the one service account that a route belongs to."""

    async def verify(self, authorization: Sequence[bytes], audience: str) -> object:
        """Accepts exactly one full-signature token of that account for the audience.

        Raises:
            PushRefused: not such a token.
            KeySetUnavailable: the signing keys are out of reach.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDeps:
    """Everything the API needs, open; the application closes `documents` and `publisher` when it ends.

    Attributes:
        settings: checked.
        documents: where runs and keys are.
        publisher: of job messages.
        service_tokens: of the scheduler's account.
        signer: of job tokens.
        verifier: of job tokens.
        engines: of the workers.
        clock: the only time.
        lifecycle: of the process.
        metrics: of the process.
    """

    settings: ApiSettings
    documents: Documents
    publisher: Publisher
    service_tokens: ServiceTokens
    signer: JobSigning
    verifier: JobVerification
    engines: EngineCatalogue
    clock: Clock
    lifecycle: Lifecycle
    metrics: Metrics
