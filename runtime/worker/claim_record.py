"""What a claim's document says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

import structlog
from msgspec import Struct, field

from runtime.contract.names import TTL_FIELD
from runtime.ports.documents import Value

SCHEMA: Final = 1
"""Of what is written here. A later one may add fields; it changes none of these, nor what a state means."""

log = structlog.get_logger()


class ClaimState(StrEnum):
    """Who has a message."""

    IN_PROGRESS = "in_progress"
    """An owner works on it, or died; the age of the document tells."""
    COMPLETED = "completed"
    """Settled for good; every further delivery is acknowledged."""
    RELEASED = "released"
    """Nobody; the counters are kept for the next owner."""
    DEAD_LETTERED = "dead_lettered"
    """Given up for good, its letter is written."""


class ClaimRecord(Struct, frozen=True, kw_only=True):
    """One message's claim.

    Attributes:
        message_id: the broker's.
        subscription: full name.
        workload: what the subscription's messages are.
        state: see ClaimState.
        owner: process that wrote it, for people; never compared.
        token: word of the delivery that owns it, and of no other anywhere: how an owner knows its own writes again.
        attempts: times that it was taken, plus the deliveries after it was dead-lettered.
        excused: of those, the ones that do not count against the ceiling.
        claimed_at_ms: owner's wall clock when it was taken; for people, never compared.
        heartbeat_at_ms: the same, at the last write.
        outcome_code: reason of a release or a dead letter; "" while in progress and when completed.
        failure_class: why the last attempt that ended did not succeed, kept while the next one works; "" where none
            has ended.
        schema: highest that any of its writers knew.
        others: fields that a later revision has added; every write keeps them.
    """

    message_id: str
    subscription: str
    workload: str
    state: ClaimState
    owner: str
    token: str
    attempts: int
    excused: int = 0
    claimed_at_ms: int
    heartbeat_at_ms: int
    outcome_code: str = ""
    failure_class: str = ""
    schema: int = SCHEMA
    others: Mapping[str, Value] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """Attempts that count against a ceiling."""
        return self.attempts - self.excused

    def data(self, expires_at: datetime) -> dict[str, Value]:
        """The document's fields."""
        return {
            **self.others,
            "message_id": self.message_id,
            "subscription": self.subscription,
            "workload": self.workload,
            "state": str(self.state),
            "owner": self.owner,
            "token": self.token,
            "attempts": self.attempts,
            "excused": self.excused,
            "claimed_at_ms": self.claimed_at_ms,
            "heartbeat_at_ms": self.heartbeat_at_ms,
            "outcome_code": self.outcome_code,
            "failure_class": self.failure_class,
            "schema": self.schema,
            TTL_FIELD: expires_at,
        }

    @classmethod
    def read(cls, data: Mapping[str, Value]) -> Self:
        """The record of a document. Tolerant: another revision may have written it, and a claim that cannot be read
        must not stop its message.
        """
        return cls(
            message_id=_text(data, "message_id"),
            subscription=_text(data, "subscription"),
            workload=_text(data, "workload"),
            state=_state(data.get("state")),
            owner=_text(data, "owner"),
            token=_text(data, "token"),
            attempts=_count(data, "attempts"),
            excused=_count(data, "excused"),
            claimed_at_ms=_count(data, "claimed_at_ms"),
            heartbeat_at_ms=_count(data, "heartbeat_at_ms"),
            outcome_code=_text(data, "outcome_code"),
            failure_class=_text(data, "failure_class"),
            schema=max(SCHEMA, _count(data, "schema")),
            others={name: value for name, value in data.items() if name not in _KNOWN},
        )


_KNOWN: Final = set(ClaimRecord.__struct_fields__) - {"others"} | {TTL_FIELD}


def _state(value: Value) -> ClaimState:
    try:
        return ClaimState(str(value))
    except ValueError:
        log.warning("claim_state_unknown", state=str(value), read_as=str(ClaimState.RELEASED))
        return ClaimState.RELEASED


def _text(data: Mapping[str, Value], field: str) -> str:
    value = data.get(field)
    return value if isinstance(value, str) else ""


def _count(data: Mapping[str, Value], field: str) -> int:
    value = data.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
