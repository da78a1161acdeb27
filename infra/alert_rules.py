"""What people are told of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from infra.alert_rule import AlertRule, LogLine, Query, Severity, Threshold
from infra.sections.alerts import AlertsPlan
from infra.settings import StackSettings
from runtime.contract import names
from runtime.contract.settings.render import whole_seconds
from runtime.contract.settings.words import Workload

COUNTED_PERIOD: Final = 300
"""Seconds over which responses and dead letters are counted."""
METRICS_DELAY: Final = timedelta(minutes=5)
"""Google's numbers of Pub/Sub are up to four minutes late."""


def alert_rules(settings: StackSettings, plan: AlertsPlan) -> list[AlertRule]:
    """The alerts of a stack, with the thresholds of `plan`."""
    internal = [settings.names.worker(workload) for workload in settings.workloads]
    if settings.executor is not None:
        internal.append(settings.names.executor)
    services = [settings.names.api, *internal]
    return [
        _dead_letters(services),
        *(rule for workload in settings.workloads for rule in _of_workload(settings, plan, workload)),
        _errors("api", settings.names.api, plan.api_errors, "Callers get errors."),
        *(_errors(name, name, plan.internal_errors, "Attempts fail, and are repeated.") for name in internal),
        _old_keys(services, plan),
    ]


def _dead_letters(services: Sequence[str]) -> AlertRule:
    return AlertRule(
        name="dead-letters",
        title="A message was given up",
        severity=Severity.ERROR,
        condition=LogLine(f"{_said_by(services, names.DEAD_LETTERED)} AND severity>=ERROR"),
        means="A job was not done: a message used its attempts up, or could not be read, and its run has ended.",
        do="`holdfast dead-letters list`; mend the cause; `holdfast dead-letters replay LETTER_ID`.",
        section="Dead letters",
    )


def _of_workload(settings: StackSettings, plan: AlertsPlan, workload: Workload) -> Iterator[AlertRule]:
    push, letters = settings.names.push(workload), settings.names.dead_letters_push(workload)
    worker = settings.worker
    age = plan.message_age or 2 * worker.request_timeout + worker.maximum_backoff
    yield AlertRule(
        name=f"{workload}-given-up",
        title=f"The broker gave a message up ({push})",
        severity=Severity.ERROR,
        condition=Threshold(
            _of_subscription("dead_letter_message_count", push), "ALIGN_DELTA", COUNTED_PERIOD, 0, summed=True
        ),
        means="Pub/Sub moved a message to the dead-letter topic after its last delivery.",
        do="`holdfast dead-letters list`. Where a worker wrote the letter, this is the same message, hours later.",
        section="Dead letters",
    )
    yield AlertRule(
        name=f"{workload}-letters-waiting",
        title=f"Dead letters are not recorded ({letters})",
        severity=Severity.CRITICAL,
        condition=_aged(letters, plan.letter_age),
        means="The API does not take dead letters, so the runs behind them stay open.",
        do="Look for 401 and 503 on /internal/dead-letters in the API's log.",
        section="Dead letters are not recorded",
    )
    yield AlertRule(
        name=f"{workload}-messages-old",
        title=f"Messages wait ({push})",
        severity=Severity.WARNING,
        condition=_aged(push, age),
        means="There is more work than workers, or attempts fail and are repeated.",
        do="Compare the worker's instances with its limit, and look for the reason codes of its 5xx.",
        section="Messages wait",
    )
    yield AlertRule(
        name=f"{workload}-stalled",
        title=f"No push reaches the worker although messages wait ({push})",
        severity=Severity.CRITICAL,
        condition=Query(_stalled(push, worker.request_timeout + worker.maximum_backoff + METRICS_DELAY)),
        means="For longer than a request and a pause may take, no push was answered by the worker, and messages wait.",
        do="Look at the `response_class` of the subscription's push_request_count; then `pulumi preview --diff`.",
        section="No push reaches the worker",
    )


def _errors(name: str, service: str, above: int, means: str) -> AlertRule:
    series = (
        f'metric.type="run.googleapis.com/request_count" AND resource.type="cloud_run_revision" '
        f'AND resource.labels.service_name="{service}" AND metric.labels.response_code_class="5xx"'
    )
    return AlertRule(
        name=f"{name}-errors",
        title=f"More than {above} responses of class 5xx in five minutes ({service})",
        severity=Severity.ERROR,
        condition=Threshold(series, "ALIGN_DELTA", COUNTED_PERIOD, above, summed=True),
        means=means,
        do=f"Read the log of {service} at severity ERROR and WARNING; an `event` names each cause.",
        section="Server errors",
    )


def _old_keys(services: Sequence[str], plan: AlertsPlan) -> AlertRule:
    age = whole_seconds(plan.key_age)
    return AlertRule(
        name="push-keys",
        title=f"The keys of push tokens are older than {age} s",
        severity=Severity.WARNING,
        condition=LogLine(f"{_said_by(services, names.KEYS_NOT_REFRESHED)} AND jsonPayload.age>={age}"),
        means="Google's signing keys cannot be fetched. Past their hour and the grace setting, pushes get 503.",
        do="Look at the line's `reason`; check that the services reach www.googleapis.com.",
        section="Old push keys",
    )


def _aged(subscription: str, above: timedelta) -> Threshold:
    series = _of_subscription("oldest_unacked_message_age", subscription)
    return Threshold(series, "ALIGN_MAX", 60, whole_seconds(above), lasting=300)


def _of_subscription(metric: str, subscription: str) -> str:
    return (
        f'metric.type="pubsub.googleapis.com/subscription/{metric}" AND resource.type="pubsub_subscription" '
        f'AND resource.labels.subscription_id="{subscription}"'
    )


def _said_by(services: Sequence[str], event: str) -> str:
    listed = " OR ".join(f'"{name}"' for name in services)
    return (
        f'resource.type="cloud_run_revision" AND resource.labels.service_name=({listed}) '
        f'AND jsonPayload.event="{event}"'
    )


def _stalled(subscription: str, window: timedelta) -> str:
    """Also where no push was ever answered, which a threshold on the count alone would not see."""
    series = f'monitored_resource="pubsub_subscription",subscription_id="{subscription}"'
    metric, over = "pubsub_googleapis_com:subscription", f"[{whole_seconds(window)}s]"
    waiting = f"min_over_time({metric}_num_undelivered_messages{{{series}}}{over})"
    # What the platform refuses, or cannot reach, has not reached the worker; every other answer is the worker's own.
    reached = f'{series},response_class!~"remote_server_4xx|unreachable"'
    return f"sum({waiting}) > 0 unless sum(increase({metric}_push_request_count{{{reached}}}{over})) > 0"
