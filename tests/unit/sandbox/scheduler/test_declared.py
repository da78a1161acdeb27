"""Jobs are read from their resource's inputs, with Google's defaults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sandbox.scheduler.declared import RetryConfig, UnreadableJob, read_job, read_jobs
from tests.support.worlds import empty_world, job

TARGET = {"uri": "https://api.run.app/internal/tick"}


def test_a_job_that_names_little_has_googles_defaults() -> None:
    read = read_job("tick", {"schedule": "* * * * *", "httpTarget": TARGET})
    assert read.deadline == timedelta(seconds=180)
    assert read.retry == RetryConfig()
    assert (read.target.method, read.target.body, read.target.account) == ("POST", b"", None)
    assert not read.paused


def test_a_job_keeps_all_that_it_names() -> None:
    read = read_job(
        "tick",
        {
            "schedule": "0 9 * * *",
            "timeZone": "Europe/Berlin",
            "paused": True,
            "attemptDeadline": "30s",
            "retryConfig": {
                "retryCount": 3.0,
                "maxRetryDuration": "60s",
                "minBackoffDuration": "1.5s",
                "maxBackoffDuration": "10s",
                "maxDoublings": 0,
            },
            "httpTarget": {
                **TARGET,
                "httpMethod": "put",
                "headers": {"X-A": "b"},
                "body": "aGk=",
                "oidcToken": {
                    "serviceAccountEmail": "tick@p.iam.gserviceaccount.com",
                    "audience": "https://api.run.app",
                },
            },
        },
    )
    assert read.paused
    assert read.deadline == timedelta(seconds=30)
    assert (read.retry.count, read.retry.doublings, read.retry.longest) == (3, 0, timedelta(seconds=60))
    assert (read.target.method, read.target.body, read.target.headers) == ("PUT", b"hi", {"X-A": "b"})
    assert (read.target.account, read.target.audience) == ("tick@p.iam.gserviceaccount.com", "https://api.run.app")


def test_the_address_is_the_audience_where_none_is_named() -> None:
    target = {**TARGET, "oidcToken": {"serviceAccountEmail": "tick@p.iam.gserviceaccount.com"}}
    assert read_job("tick", {"schedule": "* * * * *", "httpTarget": target}).target.audience == TARGET["uri"]


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ({}, "only an httpTarget"),
        ({"httpTarget": {**TARGET, "oauthToken": {"scope": "x"}}}, "only an httpTarget"),
        ({"httpTarget": {**TARGET, "httpMethod": "FETCH"}}, "httpMethod is 'FETCH'"),
        ({"httpTarget": {**TARGET, "body": "not base64!"}}, "not base64"),
        ({"httpTarget": TARGET, "attemptDeadline": "3m"}, "attemptDeadline is '3m'"),
    ],
)
def test_what_cannot_be_done_is_refused_by_job_and_field(inputs: dict[str, Any], names: str) -> None:
    with pytest.raises(UnreadableJob, match=f"job tick: .*{names}"):
        read_job("tick", {"schedule": "* * * * *", **inputs})


def test_an_unreadable_job_is_left_out_and_logged_and_the_others_stay(tmp_path: Path) -> None:
    world = empty_world(tmp_path)
    job(world, "good", "* * * * *", httpTarget=TARGET)
    job(world, "bad", "every minute", httpTarget=TARGET)
    with capture_logs() as logs:
        assert list(read_jobs(world)) == ["good"]
    assert [(entry["event"], entry["job"]) for entry in logs] == [("job_unreadable", "bad")]


def test_delays_double_then_grow_evenly_then_stay() -> None:
    retry = RetryConfig(minimum=timedelta(seconds=10), maximum=timedelta(seconds=300), doublings=3)
    assert [retry.delay(failures) for failures in range(1, 9)] == [10, 20, 40, 80, 160, 240, 300, 300]
