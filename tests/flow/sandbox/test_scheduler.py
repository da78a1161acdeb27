"""The scheduler calls real sockets: tokens, headers, deadlines, retries, faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from runtime.adapters.clock import ManualClock
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts
from sandbox.scheduler.faults import Effect, Fault
from sandbox.scheduler.server import Scheduler, UnknownJob
from sandbox.scheduler.state import Run
from sandbox.world import World
from tests.support.endpoint import Endpoint
from tests.support.worlds import API, WORKER_URL, empty_world, job

TICK_URL = f"{WORKER_URL}/internal/tick"
OIDC = {"serviceAccountEmail": API, "audience": WORKER_URL}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return empty_world(tmp_path)


@pytest.fixture
async def identity(world: World, clock: ManualClock) -> AsyncIterator[IdentityService]:
    service = IdentityService(world, clock)
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
async def scheduler(
    world: World, identity: IdentityService, endpoint: Endpoint, clock: ManualClock
) -> AsyncIterator[Scheduler]:
    hosts = Hosts()
    hosts.add("*.run.app", endpoint.address)
    service = Scheduler(world, identity, hosts, clock)
    await service.start()
    yield service
    await service.stop()


async def finished(clock: ManualClock, run: asyncio.Task[Run], step: float = 1) -> Run:
    """Moves the clock until a run has ended."""
    while not run.done():
        await clock.advance(step)
    return await run


async def waiting(clock: ManualClock, seconds: float) -> None:
    """Returns once something waits for so long on the clock; what goes over a socket meanwhile takes its own time."""
    async with asyncio.timeout(30):
        while clock.monotonic() + seconds not in [at for at, _, _ in clock._due]:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.005)


async def test_a_job_run_by_hand_calls_its_target_with_a_token_for_its_audience(
    world: World, identity: IdentityService, scheduler: Scheduler, endpoint: Endpoint
) -> None:
    job(world, "tick", "* * * * *", httpTarget={"uri": TICK_URL, "oidcToken": OIDC, "body": "aGk="})
    run = await scheduler.run_now("projects/p-test/locations/europe-west1/jobs/tick")
    assert (run.status, run.error, run.tries) == (204, None, 1)
    [call] = endpoint.calls
    assert (call.path, call.body) == ("/internal/tick", b"hi")
    token = call.headers["Authorization"].removeprefix("Bearer ")
    assert identity.verify_id_token(token, {WORKER_URL}) == API
    assert call.headers["User-Agent"] == "Google-Cloud-Scheduler"
    assert call.headers["X-CloudScheduler"] == "true"
    assert call.headers["X-CloudScheduler-JobName"] == "tick"
    assert call.headers["X-CloudScheduler-ScheduleTime"] == "2026-01-01T00:00:00+00:00"


async def test_a_job_is_called_at_each_due_time_and_a_job_declared_later_as_well(
    world: World, scheduler: Scheduler, endpoint: Endpoint, clock: ManualClock
) -> None:
    job(world, "tick", "*/2 * * * *", timeZone="Europe/Berlin", httpTarget={"uri": TICK_URL})
    await scheduler.sync()
    await clock.advance(119)
    assert endpoint.calls == []
    await clock.advance(1)
    await endpoint.received(1)
    await clock.advance(120)
    await endpoint.received(2)
    assert "Authorization" not in endpoint.calls[0].headers


async def test_a_failed_run_is_tried_again_as_declared_and_then_given_up(
    world: World, scheduler: Scheduler, endpoint: Endpoint, clock: ManualClock
) -> None:
    endpoint.answer = lambda _: web.Response(status=503)
    retry = {"retryCount": 2, "minBackoffDuration": "10s", "maxBackoffDuration": "60s", "maxDoublings": 3}
    job(world, "tick", "0 0 1 1 *", httpTarget={"uri": TICK_URL}, retryConfig=retry)
    running = asyncio.create_task(scheduler.run_now("tick"))
    for pause in (10, 20):
        await waiting(clock, pause)
        await clock.advance(pause)
    run = await running
    assert (run.status, run.error, run.tries) == (503, "status 503", 3)
    assert (await scheduler.jobs())["tick"].last == run


async def test_a_run_without_retries_is_called_once(world: World, scheduler: Scheduler, endpoint: Endpoint) -> None:
    endpoint.answer = lambda _: web.Response(status=302, headers={"Location": WORKER_URL})
    job(world, "tick", "* * * * *", httpTarget={"uri": TICK_URL})
    run = await scheduler.run_now("tick")
    assert (run.status, run.tries, len(endpoint.calls)) == (302, 1, 1), "redirects are answers, and failures"


async def test_a_target_that_does_not_answer_is_cut_at_the_attempt_deadline(
    world: World, scheduler: Scheduler, endpoint: Endpoint, clock: ManualClock
) -> None:
    endpoint.hold()
    job(world, "tick", "* * * * *", httpTarget={"uri": TICK_URL}, attemptDeadline="15s")
    run_task = asyncio.create_task(scheduler.run_now("tick"))
    await endpoint.received(1)
    run = await finished(clock, run_task)
    assert run.error == "no answer within the attempt deadline, 15 s"
    endpoint.release()


async def test_a_target_that_is_no_host_of_the_sandbox_is_a_failed_run(world: World, scheduler: Scheduler) -> None:
    job(world, "tick", "* * * * *", httpTarget={"uri": "https://example.com/"})
    run = await scheduler.run_now("tick")
    assert run.status is None
    assert "example.com is not a host of this sandbox" in str(run.error)


async def test_an_undeclared_job_is_named_in_the_refusal(scheduler: Scheduler) -> None:
    with pytest.raises(UnknownJob, match="job nothing is not declared"):
        await scheduler.run_now("nothing")


@pytest.mark.parametrize(
    ("effect", "calls", "status", "failed"),
    [
        (Effect.ERROR, 0, 500, True),
        (Effect.DUPLICATE, 2, 204, False),
        (Effect.DROP_RESPONSE, 1, None, True),
    ],
)
async def test_ordered_faults_happen_once(
    world: World,
    scheduler: Scheduler,
    endpoint: Endpoint,
    effect: Effect,
    calls: int,
    status: int | None,
    failed: bool,
) -> None:
    job(world, "tick", "* * * * *", httpTarget={"uri": TICK_URL})
    scheduler.faults.order(Fault(effect=effect, job="tick", status=500))
    run = await scheduler.run_now("tick")
    assert (len(endpoint.calls), run.status, run.error is not None) == (calls, status, failed)
    assert (await scheduler.run_now("tick")).status == 204


async def test_a_delayed_run_waits_on_the_clock(
    world: World, scheduler: Scheduler, endpoint: Endpoint, clock: ManualClock
) -> None:
    job(world, "tick", "0 0 1 1 *", httpTarget={"uri": TICK_URL})
    scheduler.faults.order(Fault(effect=Effect.DELAY, seconds=100))
    await scheduler.sync()
    run = asyncio.create_task(scheduler.run_now("tick"))
    await clock.advance(99)
    assert endpoint.calls == []
    assert (await finished(clock, run)).status == 204
