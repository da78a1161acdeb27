"""The invoker check, with real tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from runtime.contract.names import STRIPPED_SIGNATURE, service_url
from tests.support.cloud_run import NUMBER, REGION, Front, account, front, grant, may_invoke, new_world, service

AUDIENCE = service_url("worker", NUMBER, REGION)


@pytest.fixture
async def it() -> AsyncIterator[Front]:
    world = new_world()
    world.put(service("worker", public=False, customAudiences=["https://jobs.example"]))
    world.put(may_invoke("push", "worker"))
    async with front(world, check=False) as made:
        yield made


def bearer(it: Front, caller: str = "push", audience: str = AUDIENCE) -> str:
    return f"Bearer {it.identity.id_token(account(caller), audience)}"


async def seen(it: Front, **headers: str) -> dict[str, str]:
    answer = await it.json("worker", internal=True, headers=headers)
    return {name.lower(): value for name, value in answer["headers"]}


@pytest.mark.parametrize("audience", [AUDIENCE, "https://jobs.example"])
async def test_a_caller_with_the_grant_passes_and_its_signature_does_not(it: Front, audience: str) -> None:
    token = bearer(it, audience=audience)
    arrived = (await seen(it, Authorization=token))["authorization"]
    assert arrived == f"{token.rpartition('.')[0]}.{STRIPPED_SIGNATURE}"


async def test_a_caller_without_a_token_is_not_let_in(it: Front) -> None:
    assert await it.status("worker", internal=True) == 403
    assert it.cloud_run.instances("worker") == [], "a refused caller must not start an instance"


@pytest.mark.parametrize(
    "value",
    ["Bearer", "Bearer a.b.c", "Basic dXNlcjpwYXNz", f"Bearer a.b.{STRIPPED_SIGNATURE}"],
)
async def test_a_token_that_was_not_signed_here_is_unauthorized(it: Front, value: str) -> None:
    assert await it.status("worker", internal=True, headers={"Authorization": value}) == 401


async def test_a_token_for_another_audience_is_unauthorized(it: Front) -> None:
    token = bearer(it, audience=service_url("api", NUMBER, REGION))
    assert await it.status("worker", internal=True, headers={"Authorization": token}) == 401


async def test_a_caller_without_the_grant_is_forbidden_and_the_grant_is_named(it: Front) -> None:
    with capture_logs() as logs:
        assert await it.status("worker", internal=True, headers={"Authorization": bearer(it, "stranger")}) == 403
    (warning,) = [row for row in logs if row["event"] == "grant_missing"]
    named = f"missing grant: roles/run.invoker on service worker for serviceAccount:{account('stranger')}"
    assert warning["grant"] == named


async def test_the_serverless_header_is_the_one_that_counts_and_the_other_passes_untouched(it: Front) -> None:
    token = bearer(it)
    arrived = await seen(it, **{"X-Serverless-Authorization": token, "Authorization": "Bearer of-the-application"})
    assert arrived["authorization"] == "Bearer of-the-application"
    assert arrived["x-serverless-authorization"].endswith(f".{STRIPPED_SIGNATURE}")
    headers = {"X-Serverless-Authorization": "Bearer a.b.c", "Authorization": token}
    assert await it.status("worker", internal=True, headers=headers) == 401


async def test_a_service_without_the_check_sees_the_whole_token() -> None:
    world = new_world()
    world.put(service("worker", public=False, invokerIamDisabled=True))
    async with front(world, check=False) as it:
        token = bearer(it, "anyone")
        assert (await seen(it, Authorization=token))["authorization"] == token


async def test_a_service_that_everybody_may_invoke_asks_for_no_token() -> None:
    world = new_world()
    world.put(service("worker", public=False))
    type_ = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
    world.put(grant(type_, "name", "worker", "roles/run.invoker", "allUsers"))
    async with front(world, check=False) as it:
        assert await it.status("worker", internal=True) == 200
