"""Hands a recorded run to the broker: signed, published, and never the reason for refusing a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from runtime.api.job import JobMaker
from runtime.api.json_value import encode, off_loop
from runtime.api.run_record import RunRecord
from runtime.contract import names
from runtime.contract.trace_context import ATTRIBUTE_TRACEPARENT
from runtime.identity.job_token import JobSigner
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.publisher import Publisher, PublishRefused, PublishUnavailable
from runtime.ports.tracing import current

TRIES: Final = 3
TRY_SECONDS: Final = 3
"""Longest single try: a caller waits for the first publication, the sweeper does the rest."""
PAUSE_SECONDS: Final = 0.2
"""Before the second try; doubles."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRules:
    """Where jobs go.

    Attributes:
        topic: full name of the topic.
        callback_url: base of the callbacks, without a trailing slash.
        token_life: of a job token.
    """

    topic: str
    callback_url: str
    token_life: timedelta


class Dispatcher:
    """Publishes runs.

    Args:
        publisher: one try per call; retries are made here.
        signer: of job tokens.
        rules: where jobs go.
        clock: for bounds and token times.
        metrics: counts publications.
    """

    def __init__(
        self, publisher: Publisher, signer: JobSigner, rules: DispatchRules, clock: Clock, metrics: Metrics
    ) -> None:
        self._publisher = publisher
        self._jobs = JobMaker(signer, rules.callback_url)
        self._rules = rules
        self._clock = clock
        self._metrics = metrics

    async def publish(self, record: RunRecord, payload: bytes) -> bool:
        """Publishes a run's present generation; False where it is not known to be published. Raises nothing.

        A publication whose answer was lost may stand beside a second one; that is harmless, it parks on the lease.

        Args:
            record: as stored.
            payload: as stored, see RunRequest.
        """
        result = await self._published(record, payload)
        self._metrics.published.labels(result).inc()
        return result == "published"

    async def _published(self, record: RunRecord, payload: bytes) -> str:
        about = {"run_id": record.run_id, "job_id": record.job_id, "topic": self._rules.topic}
        try:
            data = await off_loop(len(payload), lambda: self._message(record, payload))
            await self._send(record, data)
        except (PublishUnavailable, TimeoutError) as error:
            log.warning("run_not_published", error=str(error) or "no answer in time", **about)
            return "unavailable"
        except PublishRefused as error:
            log.error("run_not_published", error=error.line(), **about)  # noqa: TRY400 - the broker's answer says it all
            return "refused"
        except Exception:
            # The run is recorded: whatever fails here, the sweeper publishes it.
            log.exception("run_not_published", **about)
            return "failed"
        return "published"

    def _message(self, record: RunRecord, payload: bytes) -> bytes:
        job = self._jobs.signed(record, payload, life=self._rules.token_life, now=self._clock.now())
        return encode({"v": names.MESSAGE_VERSION, "job_id": record.job_id, "payload": job})

    async def _send(self, record: RunRecord, data: bytes) -> None:
        attributes = {names.ATTRIBUTE_RUN_ID: record.run_id, names.ATTRIBUTE_JOB_ID: record.job_id}
        trace = current()
        if trace is not None:
            attributes[ATTRIBUTE_TRACEPARENT] = trace.parent
        for number in range(1, TRIES + 1):
            try:
                async with self._clock.timeout(TRY_SECONDS):
                    await self._publisher.publish(self._rules.topic, data, attributes, timeout=TRY_SECONDS)
            except (PublishUnavailable, TimeoutError):
                if number == TRIES:
                    raise
                await self._clock.sleep(PAUSE_SECONDS * 2 ** (number - 1))
            else:
                return
