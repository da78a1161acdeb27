"""What the broker gives up is recorded, ends its run, and can be replayed; on the whole local stack.

Not covered: a letter that meets a live lease, and every refusal of a replay (the API's own tests).
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from cli.main import app
from sandbox.cloud_run.faults import Action, Fault, Point
from sandbox.engine.registration import Registration
from sandbox.pubsub.message import Draft
from tests.support.avro_files import read_avro
from tests.support.local import QUICK, WORKER, RunningStack, local_stack

ATTEMPTS: Final = 5
"""Pub/Sub's smallest max_delivery_attempts."""
CHANGES: Final[dict[str, Any]] = {"holdfast:worker": {**QUICK["holdfast:worker"], "concurrency": 8, "max_instances": 1}}
UNREADABLE: Final = b"not a job \x00\xff"


def impatient(registration: Registration) -> Registration:
    """A broker that gives up after few deliveries, and is told so on both sides; letters are pushed at once."""
    inputs = copy.deepcopy(dict(registration.inputs))
    if registration.name == "execution-push":
        inputs["deadLetterPolicy"]["maxDeliveryAttempts"] = ATTEMPTS
    elif registration.name == "execution-dead-letters-push":
        inputs["retryPolicy"] = {"minimumBackoff": "0s", "maximumBackoff": "1s"}
    elif registration.name == "execution-service":
        for variable in inputs["template"]["containers"][0]["envs"]:
            if variable["name"] == "GCP_QUEUE_BROKER_MAX_ATTEMPTS":
                variable["value"] = str(ATTEMPTS)
    return replace(registration, inputs=inputs)


async def letters(running: RunningStack, query: str = "") -> list[dict[str, Any]]:
    async with running.session.get(f"/v1/dead-letters{query}") as response:
        answer = await response.json()
        assert response.status == 200, answer
        return list(answer["dead_letters"])


async def letter_of(running: RunningStack, query: str = "") -> dict[str, Any]:
    """The one letter, once it is there."""
    async with asyncio.timeout(40):
        while not (found := await letters(running, query)):  # noqa: ASYNC110 - what is waited for is another process's
            await asyncio.sleep(0.1)
    (letter,) = found
    return letter


async def replayed(running: RunningStack, letter: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    async with running.session.post(f"/v1/dead-letters/{letter['id']}/replay") as response:
        return response.status, dict(await response.json(content_type=None))


async def test_a_worker_killed_on_every_delivery_ends_in_a_letter_and_a_replay_of_it_succeeds(tmp_path: Path) -> None:
    dies = Fault(point=Point.DOCUMENTS_BEFORE, match="create pubsub-claims", action=Action.KILL)
    async with local_stack(tmp_path, CHANGES, impatient) as running:
        for _ in range(ATTEMPTS):
            running.stack.cloud_run.order_faults(WORKER, [dies])
        await running.kill(WORKER)  # the one that runs has no fault
        await running.submit(run_id="unlucky")

        record, _ = await running.ended("unlucky")
        assert record["state"] == "dead_lettered", running.logs.text()
        assert record["failure_class"] == "retry_exhausted"
        letter = await letter_of(running)
        assert (letter["run_id"], letter["job_id"], letter["source"]) == ("unlucky", "unlucky.1", "execution")
        assert (letter["delivery_attempt"], letter["worker"]) == (ATTEMPTS, "dead-letter-topic")
        assert not letter["spurious"]

        status, queued = await replayed(running, letter)
        assert (status, queued["generation"]) == (202, 2)
        record, events = await running.ended("unlucky")
        assert (record["state"], record["result"]) == ("succeeded", "Hello Ada"), running.logs.text()
        moves = [(entry["generation"], entry["state"]) for entry in record["history"]]
        assert moves == [
            (1, "queued"), (1, "dispatching"), (1, "dead_lettered"),
            (2, "queued"), (2, "dispatching"), (2, "running"), (2, "succeeded"),
        ]  # fmt: skip
        assert [event["sequence"] for event in events] == list(range(len(events)))

        status, refused = await replayed(running, letter)
        assert (status, refused["code"], refused["generation"]) == (409, "already_replayed", 2)


async def test_a_path_that_always_fails_ends_in_one_letter_with_the_true_cause(tmp_path: Path) -> None:
    """The worker gives up and writes the letter; that it cannot tell the API is made good by the broker's copy."""
    deaf = Fault(point=Point.HTTP_BEFORE, match="/execution/progress", action=Action.ERROR, nth=0)
    async with local_stack(tmp_path, CHANGES, impatient) as running:
        running.stack.cloud_run.order_faults(WORKER, [deaf])
        await running.kill(WORKER)
        await running.submit(run_id="unheard")

        record, _ = await running.ended("unheard")
        letter = await letter_of(running, "?failure_class=retry_exhausted&source=execution")
        assert record["state"] == "dead_lettered", running.logs.text()
        assert letter["worker"] != "dead-letter-topic", "the worker wrote it"
        assert record["last_failure_class"] == letter["last_failure_class"] == "dispatch_error"
        assert letter["reason"] == "broker_attempts_exhausted"
        await running.stack.pubsub.wait_idle(timeout=30)
        assert [found["id"] for found in await letters(running)] == [letter["id"]], "two writers, one letter"


async def test_a_message_that_is_no_job_has_a_letter_with_its_bytes(tmp_path: Path) -> None:
    async with local_stack(tmp_path, CHANGES, impatient) as running:
        topic = str(running.stack.deployment.outputs["execution_topic"])
        await running.stack.pubsub.publish(topic, [Draft(data=UNREADABLE)])

        letter = await letter_of(running, "?failure_class=malformed_message")
        async with running.session.get(f"/v1/dead-letters/{letter['id']}?payload=true") as response:
            payload = (await response.json())["payload"]
        assert base64.b64decode(payload["base64"]) == UNREADABLE
        status, refused = await replayed(running, letter)
        assert (status, refused["code"]) == (409, "not_replayable")
        await running.stack.pubsub.wait_idle(timeout=30)
        assert len(await letters(running)) == 1, "the broker's copy is the worker's letter"

    # The sink's file is closed after minutes, or when the broker ends.
    (file,) = await asyncio.to_thread(lambda: list(tmp_path.rglob("*.avro")))
    assert file.is_relative_to(tmp_path / "storage" / "holdfast-local-holdfast-dead-letters" / "execution")
    shown = await asyncio.to_thread(CliRunner().invoke, app, ["dead-letters", "read", str(file)])
    assert json.loads(shown.output)["bytes"] == len(UNREADABLE)
    _, (record,) = read_avro(file.read_bytes())
    assert record["data"] == UNREADABLE
    assert record["attributes"]["CloudPubSubDeadLetterSourceSubscription"] == "holdfast-execution-push"
