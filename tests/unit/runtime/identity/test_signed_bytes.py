"""A signed job as its bytes travel: whatever is flipped on the way is refused, however it is spelled is the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.contract.settings.verifying_keys import PreviousKey
from runtime.contract.strict_json import JsonError, parse_json
from runtime.identity.job_token import JobRefused, JobSigner, JobVerifier
from runtime.identity.keys import JobKeys
from tests.support.job_keys import pair

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
VERIFIER: Final = JobVerifier(pair().keys.public_pem, "k1", PreviousKey(pair("second").public, "k2"))
JOB: Final[dict[str, object]] = {
    "job_id": "run-1.1", "run_id": "run-1", "app_id": "app", "user_id": "user", "engine": "flow",
    "spec": {"nodes": [1, 2.5, -0.001]}, "payload": {"é": None, "a": [True, {"b": 1e21}]}, "timeout_ms": 540000,
    "max_attempts": 3, "execution_mode": "sync", "callback_url": "https://api.example", "lease_token": "l",
}  # fmt: skip


def signed(keys: JobKeys, kid: str) -> dict[str, object]:
    token = JobSigner(keys.private_pem, kid).sign(JOB, subject="user", lifetime=timedelta(hours=1), now=NOW)
    return {**JOB, "executor_jwt": token}


EITHER: Final = {"current": signed(pair().keys, "k1"), "previous": signed(pair("second").keys, "k2")}
under_either_key = pytest.mark.parametrize("job", EITHER.values(), ids=EITHER)


def body_of(job: dict[str, object]) -> bytes:
    return json.dumps(job, ensure_ascii=False).encode()


LENGTH: Final = len(body_of(EITHER["current"]))


@under_either_key
@given(st.integers(0, LENGTH - 1), st.integers(1, 255))
def test_no_byte_of_a_signed_job_can_be_flipped(job: dict[str, object], at: int, mask: int) -> None:
    flipped = bytearray(body_of(job))
    flipped[at] ^= mask
    try:
        received = parse_json(bytes(flipped))
    except JsonError:
        return
    # A blank for another blank, or an E for an e, is another spelling of the same job.
    assume(received != job)
    assert isinstance(received, dict)
    with pytest.raises(JobRefused):
        VERIFIER.verify(received, NOW)


@under_either_key
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
def test_the_verdict_does_not_depend_on_how_a_number_or_a_text_is_spelled(
    job: dict[str, object], spelled: str, again: str
) -> None:
    text = body_of(job).decode()
    assert spelled in text
    received = parse_json(text.replace(spelled, again).encode())
    assert isinstance(received, dict)
    assert VERIFIER.verify(received, NOW).run_id == "run-1"
