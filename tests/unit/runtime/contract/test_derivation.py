"""What is derived from the given timeouts satisfies every rule."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.derivation import GivenTimeouts, derive
from runtime.contract.settings.words import Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.timeouts import check
from tests.support.job_keys import pair


def test_the_defaults_are_those_of_the_design() -> None:
    facts = derive(GivenTimeouts())
    assert facts.process == 570
    assert facts.ack_subscription == 600
    assert facts.stale_after == 180
    assert facts.run_lease == 150
    assert facts.broker_attempts == 20
    assert facts.message_retention == facts.claim_retention == facts.max_queue_age == 86400
    assert facts.job_token_life == 87300


@st.composite
def given_timeouts(draw: st.DrawFn) -> GivenTimeouts:
    request = draw(st.integers(61, 3600))
    return GivenTimeouts(
        request=request,
        run=draw(st.integers(1, request - 60)),
        heartbeat=draw(st.integers(5, 190 if request > 600 else 600)),
        ceiling=draw(st.integers(1, 5 if request > 600 else 50)),
        min_backoff=draw(st.integers(0, 600)),
        max_backoff=draw(st.integers(0, 600)),
    )


@given(given_timeouts())
def test_derived_values_satisfy_every_rule(timeouts: GivenTimeouts) -> None:
    assert check(derive(timeouts)) == []


@given(given_timeouts())
def test_a_worker_starts_with_what_was_derived_for_it(timeouts: GivenTimeouts) -> None:
    facts = derive(timeouts)
    settings = WorkerSettings(
        workload=Workload.EXECUTION,
        project_id="p-test",
        subscription="projects/p-test/subscriptions/jobs",
        push_service_account="push@p-test.iam.gserviceaccount.com",
        backend_pub=pair().public,
        api_base_url="https://api.example",
        ack_deadline=timedelta(seconds=facts.ack_env or 0),
        request_timeout=timedelta(seconds=facts.request_env or 0),
        run_timeout=timedelta(seconds=facts.run or 0),
        process_timeout=timedelta(seconds=facts.process or 0),
        heartbeat=timedelta(seconds=facts.heartbeat or 0),
        stale_after=timedelta(seconds=facts.stale_after or 0),
        claim_retention=timedelta(seconds=facts.claim_retention or 0),
        max_attempts=timeouts.ceiling,
        broker_attempts=facts.broker_env,
    )
    assert settings.validated() == settings
    assert settings.run_lease == timedelta(seconds=facts.run_lease or 0)


def test_a_ceiling_that_no_broker_can_serve_is_found_and_not_hidden() -> None:
    (finding,) = check(derive(GivenTimeouts(request=3600, run=3500, ceiling=6)))
    assert (finding.id, finding.settings[0], finding.passing) == ("T09", "ceiling", 5)
