"""Alert policies and notification channels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, lasts, matches, one_of, seconds_of
from sandbox.provider.unknown import is_unknown
from sandbox.world import World

ALERT_POLICY: Final = "gcp:monitoring/alertPolicy:AlertPolicy"
CHANNEL: Final = "gcp:monitoring/notificationChannel:NotificationChannel"

_KINDS: Final = (
    "conditionThreshold",
    "conditionAbsent",
    "conditionMatchedLog",
    "conditionMonitoringQueryLanguage",
    "conditionPrometheusQueryLanguage",
    "conditionSql",
)
_CONDITIONS_MAX: Final = 6
_CHANNELS_MAX: Final = 16
_CHANNEL_NAME: Final = re.compile(r"projects/[^/]+/notificationChannels/[0-9]+", re.ASCII)
_METRIC: Final = re.compile(r"metric\.type\s*=")
_RESOURCE: Final = re.compile(r"resource\.type\s*=")
_AUTO_CLOSE: Final = (1800, 604_800)
"""Seconds: half an hour to a week."""
_ALIGNMENT: Final = (60, 93_600)
"""Seconds: a minute to 26 hours."""
_CONTENT_MAX: Final = 8192
_SUBJECT_MAX: Final = 255
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")


def _logical(_: Inputs, around: Surroundings) -> str:
    """The platform numbers both; the same name in a program gets the same number."""
    return str(int(hashlib.sha256(around.logical.encode()).hexdigest()[:15], 16))


def _policy_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from one_of(inputs, "combiner", ("AND", "OR", "AND_WITH_MATCHING_RESOURCE"))
    yield from one_of(inputs, "severity", ("CRITICAL", "ERROR", "WARNING"))
    conditions = inputs["conditions"]
    if not 1 <= len(conditions) <= _CONDITIONS_MAX:
        yield Failure("conditions", f"has {len(conditions)} members; a policy has 1 to {_CONDITIONS_MAX}")
    for index, condition in enumerate(conditions):
        for failure in _condition_rules(condition):
            yield Failure(f"conditions[{index}].{failure.path}", failure.reason)
    yield from _strategy_rules(inputs)
    yield from _documentation_rules(inputs)
    channels = inputs.get("notificationChannels") or []
    if len(channels) > _CHANNELS_MAX:
        yield Failure("notificationChannels", f"has {len(channels)} members; a policy has at most {_CHANNELS_MAX}")
    for index, channel in enumerate(channels):
        if not is_unknown(channel) and not _CHANNEL_NAME.fullmatch(channel):
            yield Failure(f"notificationChannels[{index}]", f"{channel!r} is no channel's full name")


def _condition_rules(condition: Mapping[str, Any]) -> Iterator[Failure]:
    kinds = [kind for kind in _KINDS if condition.get(kind) is not None]
    if len(kinds) != 1:
        yield Failure("displayName", f"exactly one of {', '.join(_KINDS)} is needed")
        return
    (kind,) = kinds
    rules = _RULES.get(kind)
    for failure in rules(condition[kind]) if rules else ():
        yield Failure(f"{kind}.{failure.path}", failure.reason)


def _threshold_rules(threshold: Mapping[str, Any]) -> Iterator[Failure]:
    yield from _whole_minutes(threshold, "duration")
    yield from one_of(threshold, "comparison", ("COMPARISON_GT", "COMPARISON_LT"))
    filter_ = at(threshold, "filter")
    if filter_ is not None and not (_METRIC.search(filter_) and _RESOURCE.search(filter_)):
        yield Failure("filter", "must name a metric.type and a resource.type")
    for index, aggregation in enumerate(threshold.get("aggregations") or []):
        for failure in lasts(aggregation, "alignmentPeriod", *_ALIGNMENT):
            yield Failure(f"aggregations[{index}].{failure.path}", failure.reason)


def _query_rules(query: Mapping[str, Any]) -> Iterator[Failure]:
    yield from _whole_minutes(query, "duration")
    yield from _not_empty(query, "query")


def _line_rules(line: Mapping[str, Any]) -> Iterator[Failure]:
    yield from _not_empty(line, "filter")


def _not_empty(values: Mapping[str, Any], key: str) -> Iterator[Failure]:
    if not values[key].strip():
        yield Failure(key, "is empty")


def _whole_minutes(values: Mapping[str, Any], key: str) -> Iterator[Failure]:
    value = at(values, key)
    seconds = 0 if value is None else seconds_of(value)
    if seconds is None or seconds % 60:
        yield Failure(key, f"{value!r} is refused; it must be seconds with an s, in whole minutes")


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Failure]]]] = {
    "conditionThreshold": _threshold_rules,
    "conditionPrometheusQueryLanguage": _query_rules,
    "conditionMatchedLog": _line_rules,
}
"""Kind of a condition -> what the platform refuses of it; of the other kinds only their shape is checked."""


def _strategy_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from lasts(inputs, "alertStrategy.autoClose", *_AUTO_CLOSE)
    limit = at(inputs, "alertStrategy.notificationRateLimit")
    of_logs = [condition for condition in inputs["conditions"] if condition.get("conditionMatchedLog") is not None]
    if of_logs and len(inputs["conditions"]) > 1:
        yield Failure("conditions", "a condition on log lines is a policy's only one")
    if of_logs and not limit:
        yield Failure("alertStrategy.notificationRateLimit", "is required where a condition matches log lines")
    if limit and not of_logs:
        yield Failure("alertStrategy.notificationRateLimit", "is for conditions on log lines only")


def _documentation_rules(inputs: Inputs) -> Iterator[Failure]:
    content, subject = at(inputs, "documentation.content") or "", at(inputs, "documentation.subject") or ""
    if len(content) > _CONTENT_MAX:
        yield Failure("documentation.content", f"is longer than {_CONTENT_MAX} characters")
    if len(subject.encode()) > _SUBJECT_MAX:
        yield Failure("documentation.subject", f"is longer than {_SUBJECT_MAX} bytes")
    yield from one_of(inputs, "documentation.mimeType", ("text/markdown",))


def _channel_rules(inputs: Inputs) -> Iterator[Failure]:
    if inputs["type"] == "email":
        yield from matches(inputs, "labels.email_address", _EMAIL, "an e-mail address")
        if at(inputs, "labels.email_address") is None:
            yield Failure("labels.email_address", "is missing; a channel of type email needs it")


def _policy_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/alertPolicies/{name}"
    return {"id": full, "name": full, "creationRecords": []}


def _channel_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/notificationChannels/{name}"
    return {"id": full, "name": full, "verificationStatus": ""}


BEHAVIOURS: Final = {
    ALERT_POLICY: Behaviour(
        name=_logical,
        computed=_policy_computed,
        defaults=lambda inputs: {"enabled": True, **inputs},
        rules=_policy_rules,
        immutable=frozenset({"project"}),
    ),
    CHANNEL: Behaviour(
        name=_logical,
        computed=_channel_computed,
        defaults=lambda inputs: {"enabled": True, "forceDelete": False, **inputs},
        rules=_channel_rules,
        immutable=frozenset({"project", "type"}),
    ),
}
