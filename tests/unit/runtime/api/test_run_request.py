"""Requests for runs: defaults, every refusal with its place, and which requests are the same."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.problem import Problem
from runtime.api.run_request import RunRequest, RunRules, WaitedRules, read_run_request
from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import RunMode
from tests.support.api_bench import FLOW, Engines, request

RULES = RunRules(engines=Engines(), timeout_max=timedelta(seconds=540), max_attempts=3)
WAITED = replace(RULES, waited=WaitedRules(timeout_max=timedelta(seconds=3540), wait_max=timedelta(seconds=3570)))


def refused(body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        read_run_request(body, RULES)
    return caught.value


def faults(**changes: Any) -> dict[str, str]:
    body = {"engine": "flow", "flow": FLOW, **changes}
    problem = refused(json.dumps(body).encode())
    assert (problem.status, problem.code) == (422, "invalid_request")
    return {fault.pointer: fault.detail for fault in problem.faults}


def test_the_smallest_request_gets_the_deployments_defaults() -> None:
    wanted = read_run_request(b'{"engine": "report"}', RULES)
    assert wanted == RunRequest(
        run_id=None,
        mode=RunMode.ASYNC,
        app_id="default",
        engine="report",
        timeout=timedelta(seconds=540),
        wait=timedelta(),
        max_attempts=3,
        labels={},
        payload=b'{"input":null,"spec":{}}',
        request_hash=wanted.request_hash,
    )


def test_definition_and_input_are_kept_as_they_were_sent() -> None:
    wanted = request(input={"b": 1.0, "a": "é", "large": 1e16})
    assert json.loads(wanted.payload) == {"input": {"b": 1.0, "a": "é", "large": 1e16}, "spec": FLOW}
    assert b'"large":1e+16' in wanted.payload, (
        "as 10000000000000000 it would be read as an integer that cannot be signed"
    )


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"run_id": "-x"}, "/run_id", "starting with a letter"),
        ({"run_id": "x" * 65}, "/run_id", "1 to 64"),
        ({"run_id": "a/b"}, "/run_id", "1 to 64"),
        ({"run_id": "é"}, "/run_id", "1 to 64"),
        ({"run_id": 5}, "/run_id", "1 to 64"),
        ({"mode": "later"}, "/mode", "async, sync, stream"),
        ({"app_id": ""}, "/app_id", "1 to 64"),
        ({"engine": None}, "/engine", "is required"),
        ({"engine": "gpu"}, "/engine", "'gpu' is not an engine of this deployment; it has flow, report"),
        ({"engine": "Flow"}, "/engine", "lower case"),
        ({"flow": None}, "/flow", "is required"),
        ({"flow": []}, "/flow", "must be an object"),
        ({"flow": {"nodes": 1}}, "/flow/nodes", "must be a list"),
        ({"flow": {"nodes": [{"id": "a"}, {}]}}, "/flow/nodes/1/id", "is required"),
        ({"engine": "report"}, "/flow", "belongs to the engine `flow`"),
        ({"timeout_seconds": 0}, "/timeout_seconds", "from 1 to 540"),
        ({"timeout_seconds": 541}, "/timeout_seconds", "from 1 to 540"),
        ({"timeout_seconds": 1.5}, "/timeout_seconds", "integer"),
        ({"timeout_seconds": True}, "/timeout_seconds", "integer"),
        ({"timeout_seconds": "60"}, "/timeout_seconds", "integer"),
        ({"max_attempts": 4}, "/max_attempts", "from 1 to 3"),
        ({"max_attempts": 0}, "/max_attempts", "from 1 to 3"),
        ({"labels": []}, "/labels", "must be an object"),
        ({"labels": {"a b": "x"}}, "/labels/a b", "label's name"),
        ({"labels": {"a": 1}}, "/labels/a", "label's value"),
        ({"labels": {"a": "x\ny"}}, "/labels/a", "one line"),
        ({"labels": {f"l{i}": "" for i in range(33)}}, "/labels", "at most 32"),
        ({"input": [2**53]}, "/input/0", "beyond"),
        ({"retries": 1}, "/retries", "is not known here"),
        ({"flow_version": [1, 0, 0]}, "/flow_version", "is not known here"),
        ({"flow_etag": "x"}, "/flow_etag", "is not known here"),
    ],
)
def test_a_request_that_does_not_hold_is_refused_with_the_place(changes: dict[str, Any], place: str, says: str) -> None:
    assert says in faults(**changes)[place]


def test_all_faults_are_told_at_once() -> None:
    found = faults(run_id="?", timeout_seconds=0, max_attempts=99, colour="red", flow={"nodes": [{}, {}]})
    assert set(found) == {
        "/run_id", "/timeout_seconds", "/max_attempts", "/colour", "/flow/nodes/0/id", "/flow/nodes/1/id",
    }  # fmt: skip


def test_an_answer_lists_a_bounded_number_of_faults() -> None:
    body = json.dumps({"engine": "flow", "flow": {"nodes": [{}] * 500}}).encode()
    answer = json.loads(refused(body).response().text or "")
    assert len(answer["errors"]) == 50
    assert answer["detail"].startswith("the run was not accepted: 500 faults")


def test_a_body_that_is_no_object_is_one_fault() -> None:
    problem = refused(b"[1]")
    assert [(fault.pointer, fault.detail) for fault in problem.faults] == [("", "must be an object")]


@pytest.mark.parametrize("mode", ["sync", "stream"])
def test_modes_of_the_executor_are_refused_plainly(mode: str) -> None:
    problem = refused(json.dumps({"engine": "report", "mode": mode}).encode())
    assert (problem.status, problem.code) == (422, "mode_not_available")
    assert "this deployment has no executor" in str(problem)


def waited(mode: str, **changes: Any) -> RunRequest:
    return read_run_request(json.dumps({"engine": "report", "mode": mode, **changes}).encode(), WAITED)


def test_a_run_that_is_waited_for_has_the_executors_time_and_one_attempt() -> None:
    wanted = waited("sync")
    assert (wanted.mode, wanted.timeout, wanted.wait) == (
        RunMode.SYNC, timedelta(seconds=3540), timedelta(seconds=3570),
    )  # fmt: skip
    assert wanted.max_attempts == 1
    assert waited("stream", timeout_seconds=3540).timeout == timedelta(seconds=3540)
    assert waited("sync", wait_seconds=5).wait == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("mode", "changes", "place"),
    [
        ("sync", {"timeout_seconds": 3541}, "/timeout_seconds"),
        ("sync", {"max_attempts": 2}, "/max_attempts"),
        ("sync", {"wait_seconds": 3571}, "/wait_seconds"),
        ("sync", {"wait_seconds": 0}, "/wait_seconds"),
        ("stream", {"wait_seconds": 5}, "/wait_seconds"),
        ("async", {"wait_seconds": 5}, "/wait_seconds"),
        ("async", {"timeout_seconds": 541}, "/timeout_seconds"),
    ],
)
def test_each_mode_has_limits_of_its_own(mode: str, changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Problem) as caught:
        waited(mode, **changes)
    assert [fault.pointer for fault in caught.value.faults] == [place]


def test_a_repeated_request_may_wait_for_another_time_and_not_in_another_mode() -> None:
    assert waited("sync", wait_seconds=5).request_hash == waited("sync").request_hash
    assert waited("sync").request_hash != waited("stream").request_hash


def test_a_payload_at_the_limit_passes_and_one_byte_more_is_refused_with_both_sizes() -> None:
    frame = len(b'{"input":"","spec":{}}')
    at_limit = json.dumps({"engine": "report", "input": "x" * (INLINE_PAYLOAD_BYTES - frame)}).encode()
    assert len(read_run_request(at_limit, RULES).payload) == INLINE_PAYLOAD_BYTES
    problem = refused(json.dumps({"engine": "report", "input": "x" * (INLINE_PAYLOAD_BYTES - frame + 1)}).encode())
    assert (problem.status, problem.code) == (413, "payload_too_large")
    assert "262145 bytes" in str(problem)
    assert "262144" in str(problem)
    assert "not available yet" in str(problem)


def test_the_same_request_written_differently_has_one_hash() -> None:
    first = read_run_request(b'{"engine":"report","input":{"a":1,"b":2.0},"mode":"async"}', RULES)
    second = read_run_request(b'{ "input": {"b": 2, "a": 1e0}, "app_id": "default", "engine": "report" }', RULES)
    assert first.request_hash == second.request_hash


def test_a_changed_default_of_the_deployment_makes_no_other_request() -> None:
    other = RunRules(engines=Engines(), timeout_max=timedelta(seconds=60), max_attempts=1)
    body = b'{"engine":"report"}'
    assert read_run_request(body, RULES).request_hash == read_run_request(body, other).request_hash


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "engine": st.sampled_from(["report"]),
            "input": st.integers(0, 3) | st.text(max_size=3),
            "timeout_seconds": st.integers(1, 3),
            "max_attempts": st.integers(1, 2),
            "app_id": st.sampled_from(["a", "b"]),
            "labels": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"])),
        },
    ),
    st.fixed_dictionaries({"input": st.integers(0, 3), "timeout_seconds": st.integers(1, 3)}),
)
def test_requests_that_ask_for_something_else_have_another_hash(first: dict[str, Any], second: dict[str, Any]) -> None:
    one = {"engine": "report", **first}
    two = {"engine": "report", **first, **second}
    same = {**one, "app_id": one.get("app_id", "default")} == {**two, "app_id": two.get("app_id", "default")}
    hashes = {read_run_request(json.dumps(body).encode(), RULES).request_hash for body in (one, two)}
    assert (len(hashes) == 1) is same
