"""The one form of a dead letter, whoever writes it: the worker that gives up, or the broker's own dead-letter topic."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from runtime.contract.names import TTL_FIELD
from runtime.contract.states import FailureClass, RunState

LETTER_VERSION: Final = "v1"
LETTER_RETENTION: Final = timedelta(days=30)
"""How long a letter and its payload are kept. A replay also needs the run and its own payload, which the API keeps for
its `run_retention`: 7 days where it says nothing."""
NATIVE_WRITER: Final = "dead-letter-topic"
"""`worker` of a letter that the API wrote for a message which the broker gave up."""
ERROR_CHARACTERS: Final = 2000
"""Longest error text in a letter: it must stay small enough to list."""


def message_key(subscription: str, message_id: str) -> str:
    """Id of a message's claim, and of its dead letter: 64 hex digits.

    Both parts are length-prefixed, so that no two pairs share an id; the subscription is in it because one published
    message has the same id on every subscription.
    """
    return message_keys(subscription)(message_id)


def message_keys(subscription: str) -> Callable[[str], str]:
    """`message_key` for the messages of one subscription."""
    of_subscription = hashlib.sha256(_prefixed(subscription))

    def key(message_id: str) -> str:
        digest = of_subscription.copy()
        digest.update(_prefixed(message_id))
        return digest.hexdigest()

    return key


def _prefixed(part: str) -> bytes:
    raw = part.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "big") + raw


def read_time(text: str | None) -> datetime | None:
    """The broker's time of a publication; None where it is absent or not one.

    It only tells copies of one message from another message with the same data.
    """
    try:
        moment = datetime.fromisoformat(text or "")
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Why a message was given up, and what is needed to find, judge and replay it.

    Attributes:
        source: the workload whose queue it came from.
        failure_class: MALFORMED_MESSAGE or RETRY_EXHAUSTED.
        last_failure_class: true cause of the last failed attempt; None where none was recorded.
        subscription: full name.
        message_id: the broker's.
        topic: full name; None where the writer does not know it.
        ordering_key: None where the message has none.
        run_id: of the run that the message asks for; None where it cannot be read. So are the next three.
        job_id: the run's generation.
        app_id: the caller's application.
        engine: the run's engine.
        delivery_attempt: the broker's count; None where it sends none.
        attempts: times that the claim was taken.
        excused: of those, the ones that do not count.
        reason: the outcome code that ended it.
        error: one line for people, at most ERROR_CHARACTERS; never a secret.
        payload_sha256: of the message's data as bytes.
        payload_bytes: size of the data.
        has_payload: whether the data lies beside the letter, under the same id in DEAD_LETTER_PAYLOADS.
        failed_at: when it was given up.
        worker: revision that gave it up; NATIVE_WRITER where the broker did.
        published_at: when the message was first published; None where that is not known.
        spurious: True where the run had ended by its own work, was cancelled, or had gone on to a later generation:
            nothing was lost.
        replayed_generation: the run's generation that a replay of this letter began; None where it was not replayed.
            So are the next two.
        replayed_at: when.
        replayed_by: name of the API key.
    """

    source: str
    failure_class: FailureClass
    last_failure_class: FailureClass | None
    subscription: str
    message_id: str
    topic: str | None = None
    ordering_key: str | None = None
    run_id: str | None = None
    job_id: str | None = None
    app_id: str | None = None
    engine: str | None = None
    delivery_attempt: int | None = None
    attempts: int = 0
    excused: int = 0
    reason: str = ""
    error: str = ""
    payload_sha256: str = ""
    payload_bytes: int = 0
    has_payload: bool = False
    failed_at: datetime
    worker: str
    published_at: datetime | None = None
    spurious: bool = False
    replayed_generation: int | None = None
    replayed_at: datetime | None = None
    replayed_by: str | None = None

    def data(self) -> dict[str, object]:
        """The document's fields, with version, state and the time at which it may go."""
        fields = {
            name: str(value) if isinstance(value, FailureClass) else value for name, value in asdict(self).items()
        }
        fields["error"] = self.error[:ERROR_CHARACTERS]
        return {
            **fields,
            "version": LETTER_VERSION,
            "state": str(RunState.DEAD_LETTERED),
            TTL_FIELD: self.failed_at + LETTER_RETENTION,
        }
