"""A recorded run as the job that whoever works on it verifies: signed whole, whichever way it goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from runtime.api.run_record import RunRecord
from runtime.identity.job_token import JobSigner


class JobMaker:
    """Signs jobs.

    Args:
        signer: of job tokens.
        callback_url: base of the callbacks, without a trailing slash.
    """

    def __init__(self, signer: JobSigner, callback_url: str) -> None:
        self._signer = signer
        self._callback_url = callback_url

    def signed(
        self,
        record: RunRecord,
        payload: bytes,
        *,
        life: timedelta,
        now: datetime,
        more: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """The job of a run's present generation. CPU work: a large one belongs in a thread.

        Args:
            record: as stored.
            payload: as stored, see RunRequest.
            life: of its token.
            now: wall time of the signature.
            more: further members; signed like the others.
        """
        stored = json.loads(payload)
        job: dict[str, object] = {
            "job_id": record.job_id,
            "run_id": record.run_id,
            "app_id": record.app_id,
            "user_id": record.user_id,
            "engine": record.engine,
            "spec": stored["spec"],
            "payload": stored["input"],
            "timeout_ms": record.timeout_ms,
            "max_attempts": record.max_attempts,
            "execution_mode": record.mode.value,
            "callback_url": self._callback_url,
            **(more or {}),
        }
        job["executor_jwt"] = self._signer.sign(job, subject=record.user_id, lifetime=life, now=now)
        return job
