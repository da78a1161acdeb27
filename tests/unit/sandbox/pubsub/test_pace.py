"""Retry delays, push backoff and the push window."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sandbox.pubsub.backoff import PushBackoff, RetryPolicy
from sandbox.pubsub.window import LARGEST, SMALLEST, PushWindow


def test_delays_double_from_the_minimum_to_the_maximum() -> None:
    policy = RetryPolicy(minimum=timedelta(seconds=10), maximum=timedelta(seconds=600))
    assert [policy.delay(failures) for failures in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]


def test_a_minimum_of_zero_does_not_delay() -> None:
    assert RetryPolicy(minimum=timedelta(0)).delay(50) == 0


@given(minimum=st.integers(0, 600), extra=st.integers(0, 600), failures=st.integers(1, 100_000))
def test_a_delay_is_between_the_two_for_any_number_of_failures(minimum: int, extra: int, failures: int) -> None:
    policy = RetryPolicy(minimum=timedelta(seconds=minimum), maximum=timedelta(seconds=minimum + extra))
    assert minimum <= policy.delay(failures) <= minimum + extra


def test_a_failing_endpoint_is_left_alone_for_longer_and_longer_up_to_a_minute() -> None:
    backoff, now, pauses = PushBackoff(), 0.0, []
    for _ in range(12):
        backoff.failed(now, now)
        pauses.append(round(backoff.until - now, 3))
        now = backoff.until
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60]


def test_failures_of_pushes_that_were_in_flight_together_count_once() -> None:
    backoff = PushBackoff()
    for _ in range(4):
        backoff.failed(started=0.0, now=1.0)
    assert backoff.until == 1.1


def test_one_success_ends_the_backoff() -> None:
    backoff = PushBackoff()
    backoff.failed(0, 0)
    backoff.failed(1, 1)
    backoff.succeeded()
    assert backoff.until == 0
    backoff.failed(2, 2)
    assert backoff.until == 2.1


def test_the_window_doubles_per_round_trip_and_halves_per_failure() -> None:
    window = PushWindow()
    assert window.size == SMALLEST
    for _ in range(SMALLEST):
        window.acknowledged()
    assert window.size == 2 * SMALLEST
    window.failed()
    assert window.size == SMALLEST


@given(st.lists(st.booleans(), max_size=2000))
def test_the_window_stays_within_its_bounds(outcomes: list[bool]) -> None:
    window = PushWindow()
    for acknowledged in outcomes:
        (window.acknowledged if acknowledged else window.failed)()
        assert SMALLEST <= window.size <= LARGEST
