"""A grant that the program lacks is lacking here as in the cloud, and the log names it.

One test for each grant of the execution path. Not covered: propagation delays, which the sandbox does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sandbox.cloud_run.logs import LogLine
from sandbox.engine.registration import Mutate, Registration
from sandbox.local_stack import LocalStackFailed
from sandbox.pubsub.message import Draft
from tests.support.local import QUICK, RunningStack, local_stack

AGENT = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
ACCOUNTS = "holdfast-local.iam.gserviceaccount.com"
PUSH = f"holdfast-execution-push@{ACCOUNTS}"
PATIENT = {"holdfast:worker": {**QUICK["holdfast:worker"], "minimum_backoff_seconds": 5, "maximum_backoff_seconds": 5}}
"""A refused push is a delivery: at the quickest backoff the broker would be through with them in seconds."""


def without(name: str) -> Mutate:
    """The program, but for one grant."""
    return lambda registration: None if registration.name == name and _is_grant(registration) else registration


def _is_grant(registration: Registration) -> bool:
    return "role" in registration.inputs and "member" in registration.inputs


async def _until(holds: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for is written by other processes
            await asyncio.sleep(0.05)


def _named(logs: list[Any], grant: str) -> bool:
    return any(entry["event"] == "grant_missing" and grant in str(entry) for entry in logs)


@pytest.mark.parametrize(
    ("grant", "named"),
    [
        (
            "execution-push-invokes",
            "roles/run.invoker on service holdfast-execution for serviceAccount:" + PUSH,
        ),
        (
            "execution-agent-signs",
            "roles/iam.serviceAccountTokenCreator on service account " + PUSH + " for " + AGENT,
        ),
    ],
)
async def test_without_a_grant_of_the_push_nothing_is_delivered_and_with_it_nothing_is_lost(
    grant: str, named: str, tmp_path: Path
) -> None:
    with capture_logs() as logs:
        async with local_stack(tmp_path, PATIENT, without(grant), with_policies=False) as running:
            await running.submit(run_id="waits")
            await _until(lambda: _named(logs, named))
            assert (await running.run("waits"))["state"] == "dispatching"
            assert running.counts().acknowledged == 0
    async with local_stack(tmp_path, PATIENT) as running:
        record, _ = await running.ended("waits")
        assert record["state"] == "succeeded", "the message waits for the grant; it is not lost without it"


async def test_without_the_grant_of_their_push_dead_letters_are_kept_and_with_it_recorded(tmp_path: Path) -> None:
    named = f"roles/iam.serviceAccountTokenCreator on service account holdfast-dead-letters@{ACCOUNTS} for {AGENT}"
    pushed = "projects/holdfast-local/subscriptions/holdfast-execution-dead-letters-push"
    with capture_logs() as logs:
        async with local_stack(tmp_path, mutate=without("dead-letters-agent-signs"), with_policies=False) as running:
            await _publish_unreadable(running)
            await _until(lambda: _named(logs, named), seconds=60)
            counts = running.stack.pubsub.counts()[pushed]
            assert (counts.pending + counts.in_flight, counts.acknowledged) == (1, 0)
    async with local_stack(tmp_path) as running:
        await running.stack.pubsub.wait_idle(pushed)
        assert running.stack.pubsub.counts()[pushed].acknowledged == 1


async def test_without_the_right_to_publish_a_run_is_accepted_and_kept_and_the_api_names_the_grant(
    tmp_path: Path,
) -> None:
    named = f"roles/pubsub.publisher on topic holdfast-execution-jobs for serviceAccount:holdfast-api@{ACCOUNTS}"
    with capture_logs():
        async with local_stack(tmp_path, mutate=without("api-publishes-execution"), with_policies=False) as running:
            await running.submit(run_id="kept")
            await _until(lambda: named in _written(running.logs.lines))
            assert (await running.run("kept"))["state"] == "queued"


def _written(lines: list[LogLine]) -> str:
    return "\n".join(line.text for line in lines)


@pytest.mark.parametrize(
    ("grant", "service", "named"),
    [
        ("execution-uses-state", "holdfast-execution", "roles/datastore.user on project holdfast-local"),
        ("api-reads-signing-key", "holdfast-api", "roles/secretmanager.secretAccessor on secret"),
    ],
)
async def test_a_service_without_a_grant_that_its_start_needs_does_not_start_and_says_why(
    grant: str, service: str, named: str, tmp_path: Path
) -> None:
    with capture_logs(), pytest.raises(LocalStackFailed) as failed:
        async with local_stack(tmp_path, mutate=without(grant), with_policies=False):
            pass
    assert service in str(failed.value)
    assert named in str(failed.value)


async def test_without_the_state_grant_the_api_answers_that_its_store_refuses(tmp_path: Path) -> None:
    with capture_logs():
        async with local_stack(tmp_path, mutate=without("api-uses-state"), with_policies=False) as running:
            body = {"engine": "word-count", "input": {"text": "a"}}
            async with running.session.post("/v1/runs", json=body) as response:
                assert response.status == 503
                assert (await response.json())["code"] == "store_misconfigured"
            assert f"roles/datastore.user on project holdfast-local for serviceAccount:holdfast-api@{ACCOUNTS}" in (
                _written(running.logs.lines)
            )


async def _publish_unreadable(running: RunningStack) -> None:
    topic = str(running.stack.deployment.outputs["execution_topic"])
    await running.stack.pubsub.publish(topic, [Draft(data=b"not a job")])


async def test_an_unreadable_message_ends_in_the_dead_letter_topic(tmp_path: Path) -> None:
    async with local_stack(tmp_path) as running:
        await _publish_unreadable(running)
        letters = str(running.stack.deployment.outputs["execution_dead_letter_subscription"])
        await _until(lambda: running.stack.pubsub.counts()[letters].pending == 1, seconds=60)
        assert running.counts().dead_lettered == 1


@pytest.mark.parametrize(
    ("grant", "named"),
    [
        (
            "execution-agent-dead-letters",
            f"roles/pubsub.publisher on topic holdfast-execution-dead-letters for {AGENT}",
        ),
        ("execution-agent-forwards", f"roles/pubsub.subscriber on subscription holdfast-execution-push for {AGENT}"),
    ],
)
async def test_without_a_grant_of_the_dead_letters_nothing_is_forwarded(grant: str, named: str, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with local_stack(tmp_path, mutate=without(grant), with_policies=False) as running:
            await _publish_unreadable(running)
            await _until(lambda: _named(logs, named), seconds=60)
            letters = str(running.stack.deployment.outputs["execution_dead_letter_subscription"])
            assert running.stack.pubsub.counts()[letters].pending == 0
            assert running.counts().dead_lettered == 0
