"""Callback bodies: what is read, and every refusal with its place."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from runtime.api.problem import Problem
from runtime.api.report import BATCH_BODY_BYTES, ERROR_LENGTH, read_events, read_progress
from runtime.contract.limits import CALLBACK_BATCH_BYTES, EVENT_BYTES
from runtime.contract.states import FailureClass, ProgressStatus
from tests.support.api_bench import event

HOLDER = {"job_id": "r1.1", "lease_token": "a"}


def progress_faults(**body: Any) -> dict[str, str]:
    with pytest.raises(Problem) as caught:
        read_progress(json.dumps({**HOLDER, "status": "running", **body}).encode())
    assert (caught.value.status, caught.value.code) == (400, "invalid_callback")
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def event_faults(*events: Any, **body: Any) -> dict[str, str]:
    with pytest.raises(Problem) as caught:
        read_events(json.dumps({**HOLDER, "events": list(events), **body}).encode())
    assert (caught.value.status, caught.value.code) == (400, "invalid_callback")
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def test_a_running_report_is_a_request_for_the_lease() -> None:
    report = read_progress(json.dumps({**HOLDER, "status": "running", "lease_duration_ms": 1500}).encode())
    assert report.ending is None
    assert report.lease_duration == timedelta(seconds=1.5)


def test_an_ending_carries_what_the_worker_says_of_it() -> None:
    body = {**HOLDER, "status": "failed", "failure_class": "framework_error", "status_code": 422, "error": "x" * 9999}
    report = read_progress(json.dumps(body).encode())
    assert report.ending is not None
    assert (report.ending.status, report.ending.failure_class) == (
        ProgressStatus.FAILED, FailureClass.FRAMEWORK_ERROR,
    )  # fmt: skip
    assert report.ending.error == "x" * ERROR_LENGTH


def test_a_result_of_null_is_none() -> None:
    report = read_progress(json.dumps({**HOLDER, "status": "completed", "result": None}).encode())
    assert report.result is None


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"job_id": None}, "/job_id"),
        ({"lease_token": ""}, "/lease_token"),
        ({"lease_token": "a b"}, "/lease_token"),
        ({"lease_token": "x" * 129}, "/lease_token"),
        ({"status": None}, "/status"),
        ({"status": "succeeded"}, "/status"),
        ({"status": "Running"}, "/status"),
        ({"lease_duration_ms": -1}, "/lease_duration_ms"),
        ({"lease_duration_ms": 1.5}, "/lease_duration_ms"),
        ({"progress": 101}, "/progress"),
        ({"progress": "50"}, "/progress"),
        ({"current_step": "x" * 257}, "/current_step"),
        ({"failure_class": "oops"}, "/failure_class"),
        ({"status_code": 99}, "/status_code"),
        ({"error": ["x"]}, "/error"),
        ({"status": "completed", "status_code": 400}, "/status"),
        ({"status": "completed", "failure_class": "framework_error"}, "/status"),
    ],
)
def test_a_progress_report_that_does_not_hold_is_refused_with_the_place(body: dict[str, Any], place: str) -> None:
    assert place in progress_faults(**body)


def test_members_of_a_later_worker_are_passed_over() -> None:
    assert read_progress(json.dumps({**HOLDER, "status": "running", "mood": "good"}).encode()).ending is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"id": "evt-1"}, "/events/0/id"),
        ({"id": None}, "/events/0/id"),
        ({"sequence": -1}, "/events/0/sequence"),
        ({"sequence": "0"}, "/events/0/sequence"),
        ({"event_type": "tick\ndata: x"}, "/events/0/event_type"),
        ({"event_type": "Run-Ended"}, "/events/0/event_type"),
        ({"timestamp": None}, "/events/0/timestamp"),
        ({"timestamp": True}, "/events/0/timestamp"),
        ({"payload": "x" * EVENT_BYTES}, "/events/0/payload"),
    ],
)
def test_an_event_that_does_not_hold_is_refused_with_the_place(change: dict[str, Any], place: str) -> None:
    assert place in event_faults({**event("r1", 1, 0), **change})


@pytest.mark.parametrize("events", [[], "x", None, [event("r1", 1, 0)] * 1001])
def test_a_batch_has_one_to_a_thousand_events(events: Any) -> None:
    assert "/events" in event_faults(events=events)


def test_events_out_of_order_are_refused() -> None:
    assert "/events" in event_faults(event("r1", 1, 1), event("r1", 1, 0))
    assert "/events" in event_faults(event("r1", 1, 0), event("r1", 1, 0))


def test_all_faults_of_a_batch_are_told() -> None:
    assert set(event_faults(7, event("r1", 1, 1) | {"id": "x"}, job_id=None)) == {
        "/job_id", "/events/0", "/events/1/id",
    } | {"/events/0/timestamp"}  # fmt: skip


def test_a_batch_of_the_senders_largest_size_is_taken_with_what_surrounds_it() -> None:
    events = [event("r1", 1, number, "x" * 60_000) for number in range(8)]
    body = json.dumps({**HOLDER, "events": events}).encode()
    assert len(body) < CALLBACK_BATCH_BYTES
    padded = body + b" " * (BATCH_BODY_BYTES - len(body))
    assert len(read_events(padded).events) == 8
    with pytest.raises(Problem) as caught:
        read_events(padded + b" ")
    assert caught.value.status == 413
