"""Every answer that a push worker gives, as data.

A step decides an outcome; one place settles it, one place answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Verdict(StrEnum):
    """What an answer means to the broker and to the claim."""

    ACK = "ack"
    """The message is settled; it does not come back."""
    RETRY = "retry"
    """Negative acknowledgement; a later delivery may succeed."""
    DEAD = "dead"
    """Negative acknowledgement; no delivery can succeed, the broker is to dead-letter it."""
    REFUSED = "refused"
    """Negative acknowledgement of a caller or request that is not ours to judge; no claim was touched."""


class Outcome(NamedTuple):
    """One row of the table.

    Attributes:
        code: stable reason code; the plain-text body of every answer but 204.
        status: HTTP status.
        verdict: what it means.
        excused: True where a retry does not count as an attempt of the message: nothing of the work was started. A
            delivery that breaks with `unhandled_error` after it took the claim counts: its claim is dropped.
    """

    code: str
    status: int
    verdict: Verdict
    excused: bool = False


def _rows(verdict: Verdict, status: int, codes: str, *, excused: bool = False) -> dict[str, Outcome]:
    return {code: Outcome(code, status, verdict, excused) for code in codes.split()}


OUTCOMES: Final[Mapping[str, Outcome]] = MappingProxyType(
    {
        **_rows(Verdict.ACK, 204, "completed duplicate_settled dead_letter_window_exhausted"),
        **_rows(
            Verdict.DEAD,
            500,
            """
            invalid_push_envelope envelope_malformed envelope_conflict missing_message_id
            already_dead_lettered max_delivery_attempts_exceeded broker_attempts_exhausted
            invalid_message_encoding data_not_base64 message_too_large envelope_version_unsupported
            invalid_execution_payload invalid_compilation_payload invalid_object_event unsupported_object_event_type
            execution_message_id_mismatch invalid_execution_request execution_claims_mismatch execution_token_rejected
            compilation_message_id_mismatch compilation_claims_mismatch workload_context_mismatch
            invalid_object_key_layout object_finalized_without_size files_ledger_app_mismatch usage_app_not_found
            usage_user_not_found invalid_media_key media_key_outside_prefix media_transform_failed
            """,
        ),
        **_rows(
            Verdict.RETRY,
            503,
            """
            push_key_set_unavailable worker_draining worker_shutdown claim_store_unavailable owner_in_flight
            run_lease_busy run_api_unavailable not_enough_time unhandled_error
            """,
            excused=True,
        ),
        **_rows(
            Verdict.RETRY,
            503,
            """
            claim_lost processing_timeout run_lease_lost execution_payload_fetch_failed execution_failed
            callback_unacknowledged compilation_payload_fetch_failed compilation_failed files_ledger_unavailable
            files_ledger_write_conflict usage_database_unavailable media_object_store_unavailable
            media_transform_task_failed dead_letter_unrecorded
            """,
        ),
        **_rows(Verdict.REFUSED, 401, "push_token_rejected push_audience_unresolvable push_signature_stripped"),
        **_rows(Verdict.REFUSED, 403, "unexpected_subscription"),
        **_rows(Verdict.REFUSED, 413, "envelope_too_large"),
        **_rows(Verdict.REFUSED, 415, "unsupported_content_encoding"),
    }
)
"""Reason code -> outcome.

202 and every 1xx, 2xx and 3xx other than 204 are absent on purpose: they would acknowledge or confuse."""


def outcome(code: str) -> Outcome:
    """The row of a reason code.

    Raises:
        KeyError: the code is not in the table; a programming error, never an answer.
    """
    return OUTCOMES[code]
