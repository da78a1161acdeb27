"""Alert policies, and the channels that carry them to people."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.alert_rule import AlertRule, LogLine, Query, Threshold
from infra.alert_rules import alert_rules
from infra.naming import labels
from infra.sections.alerts import AlertsPlan
from infra.settings import StackSettings

AUTO_CLOSE: Final = "86400s"
"""An incident without new data for a day is over; Cloud Monitoring would wait for a week."""
ONE_AN_HOUR: Final = "3600s"
"""A log line that comes again and again is told once an hour."""
EVALUATED: Final = "60s"

_Condition = gcp.monitoring.AlertPolicyConditionArgs


@dataclass(frozen=True, kw_only=True)
class AlertsArgs:
    """What is watched, and who is told."""

    settings: StackSettings
    plan: AlertsPlan


class Alerts(pulumi.ComponentResource):
    """One policy for each rule of `infra.alert_rules`, all with the same channels.

    They read Google's own metrics, and log lines where Google has no metric: Cloud Run does not collect what a service
    shows under /metrics. Lines are matched by the policy itself; a log-based metric would not exist yet for minutes
    after it is made, in which a policy on it is refused. Does not make dashboards, uptime checks or budgets, and does
    not route: who is on call is the channel's matter.
    """

    policies: list[gcp.monitoring.AlertPolicy]

    def __init__(self, name: str, args: AlertsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:Alerts", name, {}, opts)
        self._name, self._args = name, args
        addresses = dict.fromkeys(args.plan.emails)
        channels: list[pulumi.Input[str]] = [self._create_channel(address).name for address in addresses]
        channels += args.plan.channels
        self.policies = [self._create_policy(rule, channels) for rule in alert_rules(args.settings, args.plan)]
        self.register_outputs({"policies": len(self.policies)})

    def _create_channel(self, address: str) -> gcp.monitoring.NotificationChannel:
        # By address, so that a removed one renames no other; by digest, because an address is no resource name.
        suffix = hashlib.sha256(address.encode()).hexdigest()[:8]
        return gcp.monitoring.NotificationChannel(
            f"{self._name}-email-{suffix}",
            project=self._args.settings.project,
            type="email",
            display_name=f"{self._args.settings.name_prefix}: {address}",
            labels={"email_address": address},
            user_labels=labels(self._args.settings.stack, "alerts"),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _create_policy(self, rule: AlertRule, channels: list[pulumi.Input[str]]) -> gcp.monitoring.AlertPolicy:
        settings = self._args.settings
        matches_lines = isinstance(rule.condition, LogLine)
        limit = gcp.monitoring.AlertPolicyAlertStrategyNotificationRateLimitArgs(period=ONE_AN_HOUR)
        return gcp.monitoring.AlertPolicy(
            f"{self._name}-{rule.name}",
            project=settings.project,
            display_name=f"{settings.name_prefix}: {rule.title}",
            combiner="OR",
            severity=rule.severity,
            conditions=[_condition(rule)],
            notification_channels=channels,
            alert_strategy=gcp.monitoring.AlertPolicyAlertStrategyArgs(
                auto_close=AUTO_CLOSE, notification_rate_limit=limit if matches_lines else None
            ),
            documentation=gcp.monitoring.AlertPolicyDocumentationArgs(
                content=rule.text, mime_type="text/markdown", subject=f"{settings.stack}: {rule.title}"
            ),
            user_labels=labels(settings.stack, "alerts"),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _condition(rule: AlertRule) -> _Condition:
    match rule.condition:
        case Threshold() as threshold:
            return _Condition(display_name=rule.title, condition_threshold=_threshold(threshold))
        case Query(promql, lasting):
            query = gcp.monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
                query=promql,
                duration=f"{lasting}s",
                evaluation_interval=EVALUATED,
                # A metric is there once the first message has been; Google would refuse the policy until then.
                disable_metric_validation=True,
            )
            return _Condition(display_name=rule.title, condition_prometheus_query_language=query)
        case LogLine(filter_):
            line = gcp.monitoring.AlertPolicyConditionConditionMatchedLogArgs(filter=filter_)
            return _Condition(display_name=rule.title, condition_matched_log=line)


def _threshold(threshold: Threshold) -> gcp.monitoring.AlertPolicyConditionConditionThresholdArgs:
    return gcp.monitoring.AlertPolicyConditionConditionThresholdArgs(
        filter=threshold.filter,
        comparison="COMPARISON_GT",
        threshold_value=threshold.above,
        duration=f"{threshold.lasting}s",
        aggregations=[
            gcp.monitoring.AlertPolicyConditionConditionThresholdAggregationArgs(
                alignment_period=f"{threshold.period}s",
                per_series_aligner=threshold.aligner,
                cross_series_reducer="REDUCE_SUM" if threshold.summed else "REDUCE_MAX",
            )
        ],
    )
