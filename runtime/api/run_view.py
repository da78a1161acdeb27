"""A run as callers see it: no lease token, times in ISO 8601 UTC."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from runtime.api.run_record import HistoryEntry, RunRecord
from runtime.contract.states import RunState


def summary(record: RunRecord) -> dict[str, object]:
    """One line of a list."""
    return {
        "run_id": record.run_id,
        "state": record.state.value,
        "status_code": record.status_code,
        "failure_class": record.failure_class,
        "last_failure_class": record.last_failure_class,
        "error": record.error,
        "mode": record.mode.value,
        "app_id": record.app_id,
        "engine": record.engine,
        "attempt": record.attempt,
        "max_attempts": record.max_attempts,
        "generation": record.generation,
        "timeout_seconds": record.timeout.total_seconds(),
        "cancel_requested": record.cancel_requested,
        "labels": record.labels,
        "created_at": timestamp(record.created_at),
        "queued_at": timestamp(record.queued_at),
        "dispatched_at": _optional(record.dispatched_at),
        "started_at": _optional(record.started_at),
        "completed_at": _optional(record.completed_at),
    }


def whole(record: RunRecord, result: bytes | None = None) -> dict[str, object]:
    """A run with its history and its result.

    Args:
        record: the run.
        result: JSON of the result; None where there is none.
    """
    return {
        **summary(record),
        "result": None if result is None else json.loads(result),
        "progress": record.progress,
        "current_step": record.current_step,
        "next_sequence": record.next_sequence,
        "history": [_entry(entry) for entry in record.history],
    }


def ended(record: RunRecord, result: bytes | None) -> dict[str, object]:
    """A run that has ended, as the last event of a stream says it."""
    began = record.started_at or record.created_at
    members: dict[str, object] = {
        "run_id": record.run_id,
        "status": _STREAM_STATUS.get(record.state, "failed"),
        "state": record.state.value,
        "status_code": record.status_code,
        "duration_ms": ((record.completed_at or began) - began) // timedelta(milliseconds=1),
        "result": None if result is None else json.loads(result),
        "error": record.error,
        "failure_class": record.failure_class,
        "log_level": 4 if record.state is RunState.EXPIRED else 0,
    }
    return {name: value for name, value in members.items() if value is not None}


_STREAM_STATUS: Final = {RunState.SUCCEEDED: "completed", RunState.CANCELLED: "cancelled"}


def timestamp(moment: datetime) -> str:
    """A time to the microsecond, so that the text orders and reads back exactly."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _optional(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)


def _entry(entry: HistoryEntry) -> dict[str, object]:
    members: dict[str, object] = {
        "state": entry.state.value,
        "at": timestamp(entry.at),
        "generation": entry.generation,
        "attempt": entry.attempt,
        "reason": entry.reason,
    }
    return {name: value for name, value in members.items() if value is not None}
