"""What a push worker is given."""

from __future__ import annotations

from msgspec import Struct

from runtime.contract.settings.worker import WorkerSettings
from runtime.identity.push_token import PushVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents
from runtime.ports.tracing import PASSED_ON, Tracing
from runtime.server import Lifecycle
from runtime.worker.workload import Workload


class WorkerDeps(Struct, frozen=True, kw_only=True):
    """The parts of a worker that differ between production, the local sandbox and tests.

    Attributes:
        settings: checked.
        documents: where claims and dead letters live; closed with the app.
        push_verifier: knows the push identity and its keys.
        workload: what the subscription's messages are; closed with the app.
        clock: the only source of time.
        lifecycle: the process's.
        metrics: the process's.
        tracing: of the process.
        revision: name of the deployed revision, `K_REVISION`.
    """

    settings: WorkerSettings
    documents: Documents
    push_verifier: PushVerifier
    workload: Workload
    clock: Clock
    lifecycle: Lifecycle
    metrics: Metrics
    tracing: Tracing = PASSED_ON
    revision: str = "local"
