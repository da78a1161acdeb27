"""P2: only the push identity, and only a token that was made for this service."""

from __future__ import annotations

from runtime.contract.settings.worker import WorkerSettings
from runtime.identity.audience import expected_audience
from runtime.identity.push_token import PushVerifier
from runtime.worker.request import PushRequest, Refused


async def authenticate(request: PushRequest, settings: WorkerSettings, verifier: PushVerifier) -> None:
    """Returns where the request comes from the push identity.

    Raises:
        Refused: the audience cannot be told.
        PushRefused, KeySetUnavailable: see PushVerifier.
    """
    audience = expected_audience(settings.push_audience, request.host)
    if audience is None:
        raise Refused(
            "the Host header names no host and PUBSUB_PUSH_AUDIENCE is not set; set it to the service's address",
            code="push_audience_unresolvable",
        )
    if not verifier.knows(request.authorization, audience):
        await verifier.verify(request.authorization, audience)
