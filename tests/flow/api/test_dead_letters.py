"""`/internal/dead-letters` and `/v1/dead-letters` over a socket."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from runtime.contract.names import DEAD_LETTERS_PATH
from tests.support.dead_pushes import dead_push
from tests.support.served_api import LETTER_ACCOUNT, ServedApi

PUSHED = f"{DEAD_LETTERS_PATH}?source=execution"


async def push(served: ServedApi, body: bytes, path: str = PUSHED, **claims: Any) -> tuple[int, dict[str, Any]]:
    token = served.scheduler_token(**{"email": LETTER_ACCOUNT, **claims})
    status, answer, _ = await served.call("POST", path, body, key=token)
    return status, answer


async def dead(served: ServedApi, run_id: str = "r1") -> dict[str, Any]:
    """A run that the broker gave up, and its letter."""
    await served.submit(run_id)
    status, answer = await push(served, dead_push(served.publisher.messages[-1][1]))
    assert status == 204, answer
    _, listed, _ = await served.call("GET", "/v1/dead-letters?limit=1")
    return dict(listed["dead_letters"][0])


@pytest.mark.parametrize(
    "claims",
    [{"email": "tick@p-test.iam.gserviceaccount.com"}, {"aud": "https://other.example"}, {"email_verified": False}],
    ids=["scheduler", "audience", "unverified"],
)
async def test_only_the_identity_of_dead_letters_may_push_them(served: ServedApi, claims: dict[str, Any]) -> None:
    status, problem = await push(served, dead_push(b"x"), **claims)
    assert (status, problem["code"]) == (401, "push_token_rejected")
    assert await served.stored() == []


async def test_the_identity_of_dead_letters_may_do_nothing_else(served: ServedApi) -> None:
    token = served.scheduler_token(email=LETTER_ACCOUNT)
    assert (await served.call("POST", "/internal/tick", key=token))[0] == 401


async def test_a_pushed_message_ends_its_run_and_is_listed_and_shown(served: ServedApi) -> None:
    letter = await dead(served)
    assert (letter["run_id"], letter["failure_class"], letter["source"]) == ("r1", "retry_exhausted", "execution")
    assert letter["failed_at"] == "2026-01-01T00:00:00.000000Z"
    _, run, _ = await served.call("GET", "/v1/runs/r1")
    assert run["state"] == "dead_lettered"
    status, shown, headers = await served.call("GET", f"/v1/dead-letters/{letter['id']}")
    assert (status, shown, headers["Cache-Control"]) == (200, letter, "no-store")


async def test_a_message_as_large_as_pubsub_carries_is_recorded(served: ServedApi) -> None:
    status, _ = await push(served, dead_push(b"x" * 10_000_000))
    assert status == 204
    _, listed, _ = await served.call("GET", "/v1/dead-letters")
    assert [letter["payload_bytes"] for letter in listed["dead_letters"]] == [10_000_000]


async def test_a_body_above_the_largest_envelope_is_refused(served: ServedApi) -> None:
    status, problem = await push(served, b" " * (14 * 1024 * 1024 + 1))
    assert (status, problem["code"]) == (413, "body_too_large")


async def test_a_run_under_a_live_lease_sends_the_push_away(served: ServedApi) -> None:
    await served.submit()
    await served.progress("a", "running")
    status, problem = await push(served, dead_push(served.publisher.messages[-1][1]))
    assert (status, problem["code"]) == (503, "run_lease_live")


async def test_a_source_that_is_none_is_refused(served: ServedApi) -> None:
    status, problem = await push(served, dead_push(b"x"), f"{DEAD_LETTERS_PATH}?source=gpu")
    assert (status, problem["code"]) == (400, "invalid_query")


async def test_letters_are_listed_by_source_and_class_a_page_at_a_time(served: ServedApi) -> None:
    await dead(served)
    for number in range(3):
        await served.clock.advance(1)
        await push(served, dead_push(b"x%d" % number))
    await push(served, dead_push(b"elsewhere"), f"{DEAD_LETTERS_PATH}?source=file-tracking")

    async def listed(query: str) -> tuple[list[str], str | None]:
        status, answer, _ = await served.call("GET", f"/v1/dead-letters?{query}")
        assert status == 200, answer
        return [letter["failure_class"] for letter in answer["dead_letters"]], answer["next_before"]

    assert await listed("failure_class=retry_exhausted") == (["retry_exhausted"], None)
    assert await listed("source=file-tracking&failure_class=malformed_message") == (["malformed_message"], None)
    page, more = await listed("source=execution&limit=3")
    assert page == ["malformed_message"] * 3
    assert await listed(f"source=execution&limit=3&before={more}") == (["retry_exhausted"], None)


async def test_the_bytes_of_a_message_are_for_administrators(served: ServedApi) -> None:
    """They hold the token of a job."""
    await push(served, dead_push(b"\x00\xff"))
    _, listed, _ = await served.call("GET", "/v1/dead-letters")
    path = f"/v1/dead-letters/{listed['dead_letters'][0]['id']}?payload=true"
    _, shown, _ = await served.call("GET", path)
    assert shown["payload"] == {"encoding": "decoded", "base64": base64.b64encode(b"\x00\xff").decode()}
    _, made, _ = await served.call("POST", "/v1/keys", {"name": "shop", "scopes": ["runs"]})
    status, problem, _ = await served.call("GET", path, key=made["key"])
    assert (status, problem["code"]) == (403, "scope_missing")


async def test_a_replay_queues_the_run_again_and_only_once(served: ServedApi) -> None:
    letter = await dead(served)
    path = f"/v1/dead-letters/{letter['id']}/replay"
    answers = await asyncio.gather(*(served.call("POST", path) for _ in range(4)))
    statuses = sorted(status for status, _, _ in answers)
    assert statuses == [202, 409, 409, 409]
    for status, answer, headers in answers:
        assert answer["generation"] == 2
        if status == 202:
            assert (answer["state"], headers["Location"]) == ("dispatching", "/v1/runs/r1")
        else:
            assert answer["code"] == "already_replayed"
    assert [message["job_id"] for _, message, _ in served.publisher.messages] == ["r1.1", "r1.2"]
    _, shown, _ = await served.call("GET", f"/v1/dead-letters/{letter['id']}")
    assert (shown["replayed_generation"], shown["replayed_by"]) == (2, "root")


async def test_a_draining_instance_replays_nothing(served: ServedApi) -> None:
    letter = await dead(served)
    served.lifecycle.drain()
    status, problem, _ = await served.call("POST", f"/v1/dead-letters/{letter['id']}/replay")
    assert (status, problem["code"]) == (503, "draining")


@pytest.mark.parametrize("letter_id", ["nobody", "A" * 64, "a%2Fb", "a" * 64])
async def test_an_unknown_letter_is_a_404(served: ServedApi, letter_id: str) -> None:
    for method, path in (("GET", ""), ("POST", "/replay")):
        status, problem, _ = await served.call(method, f"/v1/dead-letters/{letter_id}{path}")
        assert (status, problem["code"]) == (404, "dead_letter_not_found")


async def test_a_push_without_the_sources_attributes_is_recorded_under_its_own_id(served: ServedApi) -> None:
    message = {"data": "eA==", "messageId": "7"}
    body = json.dumps({"message": message, "subscription": "projects/p-test/subscriptions/s"}).encode()
    assert (await push(served, body))[0] == 204
    assert (await push(served, body))[0] == 204
    _, listed, _ = await served.call("GET", "/v1/dead-letters")
    assert [letter["message_id"] for letter in listed["dead_letters"]] == ["7"]
