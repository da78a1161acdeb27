"""Large bodies: read beside the loop, one after the other, so that what streams meanwhile goes on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID
from runtime.executor.intake import LOOP_BYTES
from runtime.identity.job_token import JobClaims, JobVerifier
from tests.support.job_keys import pair
from tests.support.served_executor import ServedExecutor


class Watched:
    """A verifier that sees where it works.

    Attributes:
        threads: where each call was verified.
        at_once: most calls that were verified at the same time.
    """

    def __init__(self, verifier: JobVerifier) -> None:
        self._verifier = verifier
        self._inside = 0
        self.threads: list[int] = []
        self.at_once = 0

    def verify(self, payload: Mapping[str, Any], now: datetime) -> JobClaims:
        self._inside += 1
        self.at_once = max(self.at_once, self._inside)
        self.threads.append(threading.get_ident())
        try:
            return self._verifier.verify(payload, now)
        finally:
            self._inside -= 1


@pytest.fixture
async def watched() -> AsyncIterator[tuple[ServedExecutor, Watched]]:
    """An executor and its verifier."""
    verifier = Watched(JobVerifier(pair().keys.public_pem, DEFAULT_KEY_ID))
    served = ServedExecutor(verifier=verifier)
    await served.start()
    yield served, verifier
    await served.stop()


async def test_large_bodies_are_verified_beside_the_loop_one_after_the_other(
    watched: tuple[ServedExecutor, Watched],
) -> None:
    served, verifier = watched
    body = json.dumps(served.job(payload=[0.1] * 50_000)).encode()
    for status, _, _ in await asyncio.gather(*(served.call("/execute", body) for _ in range(10))):
        assert status in (200, 409), "verified, whether it works already or not"
    assert len(verifier.threads) == 10
    assert threading.get_ident() not in verifier.threads
    assert verifier.at_once == 1


@pytest.mark.parametrize(("size", "beside"), [(LOOP_BYTES // 2, False), (LOOP_BYTES + 1, True)])
async def test_small_bodies_do_not_pay_for_a_thread(
    watched: tuple[ServedExecutor, Watched], size: int, beside: bool
) -> None:
    served, verifier = watched
    assert (await served.call("/execute", served.job(payload="x" * size)))[0] == 200
    assert (verifier.threads != [threading.get_ident()]) is beside
