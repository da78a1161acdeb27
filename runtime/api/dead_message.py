"""A message that the broker gave up, as its dead-letter topic pushes it: what can be known of it, and of its run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from runtime.contract import names
from runtime.contract.dead_letter import NATIVE_WRITER, DeadLetter, message_key
from runtime.contract.dead_letter_source import DeadLetterSource, read_source
from runtime.contract.envelope import EnvelopeError, PushEnvelope, decode_data, parse_dispatch, parse_push
from runtime.contract.limits import DEAD_LETTER_PAYLOAD_BYTES
from runtime.contract.settings.words import Workload
from runtime.contract.states import FailureClass
from runtime.identity.job_token import JobClaims, JobRefused, JobVerifier

HINT_CHARACTERS = 128
"""Longest part of an attribute that a letter repeats."""
ORDERING_KEY_CHARACTERS = 1024
"""Pub/Sub's limit for an ordering key."""


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """What the API makes of one push.

    Attributes:
        letter_id: the same for every delivery and every copy of the message.
        letter: what is written where no worker wrote one.
        data: the message's bytes.
        claims: of the job, whose signature holds; None where the message is no job of ours.
    """

    letter_id: str
    letter: DeadLetter
    data: bytes
    claims: JobClaims | None


def read_dead_message(body: bytes, workload: Workload, verifier: JobVerifier, now: datetime) -> DeadMessage:
    """Reads a push of the dead-letter topic.

    Args:
        body: of the request.
        workload: whose dead letters are pushed.
        verifier: of job tokens.
        now: time of the letter.

    Raises:
        EnvelopeError: the push itself cannot be read, which no message can cause.
    """
    envelope = parse_push(body)
    data = decode_data(envelope.data_encoded)
    source = read_source(envelope.attributes) or DeadLetterSource(
        envelope.subscription, None, None
    )  # put into the topic by hand
    claims, engine, fault = _job(data, verifier, source.published_at or now)
    letter = DeadLetter(
        source=workload.value,
        failure_class=FailureClass.MALFORMED_MESSAGE if fault else FailureClass.RETRY_EXHAUSTED,
        last_failure_class=None,
        # What no signature vouches for is a hint for people: nothing is done to the run it names.
        run_id=claims.run_id if claims else _hint(envelope, names.ATTRIBUTE_RUN_ID),
        job_id=claims.job_id if claims else _hint(envelope, names.ATTRIBUTE_JOB_ID),
        app_id=claims.app_id if claims else None,
        engine=engine,
        subscription=source.subscription,
        message_id=envelope.message_id,
        ordering_key=envelope.ordering_key[:ORDERING_KEY_CHARACTERS] or None,
        delivery_attempt=source.delivery_count,
        reason=fault.code if fault else "broker_attempts_exhausted",
        error=str(fault) if fault else f"given up after {_deliveries(source)}; no worker lived to say why",
        payload_sha256=hashlib.sha256(data).hexdigest(),
        payload_bytes=len(data),
        has_payload=len(data) <= DEAD_LETTER_PAYLOAD_BYTES,
        failed_at=now,
        worker=NATIVE_WRITER,
        published_at=source.published_at,
    )
    return DeadMessage(_letter_id(letter), letter, data, claims)


def _job(
    data: bytes, verifier: JobVerifier, at: datetime
) -> tuple[JobClaims | None, str | None, EnvelopeError | JobRefused | None]:
    """The job, its engine, and what is wrong with it.

    The token is judged as of the message's publication: that it has expired since is no reason to forget the run.
    """
    try:
        dispatch = parse_dispatch(data)
        claims = verifier.verify(dispatch.payload, at)
    except (EnvelopeError, JobRefused) as error:
        return None, None, error
    engine = dispatch.payload.get("engine")
    return claims, engine if isinstance(engine, str) else None, None


def _letter_id(letter: DeadLetter) -> str:
    if letter.published_at is None:
        return message_key(letter.subscription, letter.message_id)
    # The broker may move one message here more than once, each time under a new id.
    return message_key(letter.subscription, f"{letter.published_at.isoformat()}/{letter.payload_sha256}")


def _hint(envelope: PushEnvelope, name: str) -> str | None:
    return envelope.attributes.get(name, "")[:HINT_CHARACTERS] or None


def _deliveries(source: DeadLetterSource) -> str:
    return "too many deliveries" if source.delivery_count is None else f"{source.delivery_count} deliveries"
