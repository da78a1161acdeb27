"""A signed job as its bytes travel: whatever is flipped on the way is refused, however it is spelled is the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.contract.strict_json import JsonError, parse_json
from runtime.identity.job_token import JobRefused, JobSigner, JobVerifier
from tests.support.job_keys import pair

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEYS: Final = pair().keys
VERIFIER: Final = JobVerifier(KEYS.public_pem, "k1")
JOB: Final[dict[str, object]] = {
    "job_id": "run-1.1", "run_id": "run-1", "app_id": "app", "user_id": "user", "engine": "flow",
    "spec": {"nodes": [1, 2.5, -0.001]}, "payload": {"é": None, "a": [True, {"b": 1e21}]}, "timeout_ms": 540000,
    "max_attempts": 3, "execution_mode": "sync", "callback_url": "https://api.example", "lease_token": "l",
}  # fmt: skip
TOKEN: Final = JobSigner(KEYS.private_pem, "k1").sign(JOB, subject="user", lifetime=timedelta(hours=1), now=NOW)
SIGNED: Final[dict[str, object]] = {**JOB, "executor_jwt": TOKEN}
BODY: Final = json.dumps(SIGNED, ensure_ascii=False).encode()


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_no_byte_of_a_signed_job_can_be_flipped(at: int, mask: int) -> None:
    flipped = bytearray(BODY)
    flipped[at] ^= mask
    try:
        job = parse_json(bytes(flipped))
    except JsonError:
        return
    # A blank for another blank, or an E for an e, is another spelling of the same job.
    assume(job != SIGNED)
    assert isinstance(job, dict)
    with pytest.raises(JobRefused):
        VERIFIER.verify(job, NOW)


@pytest.mark.parametrize(
    ("spelled", "again"),
    [
        ("540000", "540000.0"),
        ("540000", "54e4"),
        ("2.5", "25e-1"),
        ("2.5", "2.50"),
        ("-0.001", "-1E-3"),
        ("1e+21", "10.0E20"),
        ('"é"', '"\\u00e9"'),
        (", ", " ,\n\t"),
    ],
)
def test_the_verdict_does_not_depend_on_how_a_number_or_a_text_is_spelled(spelled: str, again: str) -> None:
    text = BODY.decode()
    assert spelled in text
    job = parse_json(text.replace(spelled, again).encode())
    assert isinstance(job, dict)
    assert VERIFIER.verify(job, NOW).run_id == "run-1"
