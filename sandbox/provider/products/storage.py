"""Buckets and the notifications of their objects.

Does not know buckets of other projects, whose names are taken too, nor whether a bucket is empty.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, matches, one_of
from sandbox.world import TOPIC, Kind, Resource, Target, World, short_name

BUCKET: Final = "gcp:storage/bucket:Bucket"
NOTIFICATION: Final = "gcp:storage/notification:Notification"

_NAME: Final = re.compile(r"(?!goog)(?!.*google)[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]", re.ASCII)
_NAME_RULE: Final = (
    "3 to 63 lower case letters, digits, hyphens and underscores, starting and ending with a letter or digit, without "
    "`google`; a dot would need a verified domain"
)
_LOCATION: Final = re.compile(
    r"EU|US|ASIA|EUR[0-9]|NAM[0-9]|ASIA[0-9]|[A-Z]+-[A-Z]+[0-9]{1,2}", re.ASCII | re.IGNORECASE
)
_CLASSES: Final = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE")
_ACTIONS: Final = ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")
_SOFT_DELETE: Final = (604_800, 7_776_000)
"""Seconds: 7 to 90 days; 0 turns it off."""
_EVENTS: Final = ("OBJECT_FINALIZE", "OBJECT_METADATA_UPDATE", "OBJECT_DELETE", "OBJECT_ARCHIVE")
_PREFIX_BYTES: Final = 1024
"""Longest object name, and so longest prefix."""
_PUBLISHERS: Final = ("roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin")
_AGENT: Final = "gs-project-accounts"


def _bucket_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _bucket_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from matches(inputs, "location", _LOCATION, "a region like europe-west1, or EU, US, ASIA")
    yield from one_of(inputs, "publicAccessPrevention", ("inherited", "enforced"))
    yield from one_of(inputs, "storageClass", _CLASSES)
    yield from one_of(inputs, "deletionPolicy", ("ABANDON", "DELETE", "PREVENT"))
    kept = at(inputs, "softDeletePolicy.retentionDurationSeconds")
    if kept and not _SOFT_DELETE[0] <= kept <= _SOFT_DELETE[1]:
        rule = f"it must be 0, or {_SOFT_DELETE[0]} to {_SOFT_DELETE[1]}"
        yield Failure("softDeletePolicy.retentionDurationSeconds", f"{kept:g} is refused; {rule}")
    for index, each in enumerate(inputs.get("lifecycleRules", [])):
        yield from (
            Failure(f"lifecycleRules[{index}].{failure.path}", failure.reason) for failure in _lifecycle_rules(each)
        )


def _lifecycle_rules(rule: Inputs) -> Iterator[Failure]:
    yield from one_of(rule, "action.type", _ACTIONS)
    if (at(rule, "action.type") == "SetStorageClass") != (at(rule, "action.storageClass") is not None):
        yield Failure("action.storageClass", "is for SetStorageClass, which needs it")
    if not rule["condition"]:
        yield Failure("condition", "is empty; a rule needs at least one condition, like age")


def _bucket_computed(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    return {
        "id": name,
        "url": f"gs://{name}",
        "selfLink": f"https://www.googleapis.com/storage/v1/b/{name}",
        "projectNumber": int(world.number),
        "effectiveLabels": labels,
        "pulumiLabels": labels,
    }


def _bucket_guard(resource: Resource) -> str | None:
    if resource.inputs["deletionPolicy"] == "PREVENT":
        return "deletionPolicy is PREVENT; deploy it as DELETE first"
    return None


def _notification_name(inputs: Inputs, _: Surroundings) -> str:
    """The platform would take the same again, and send every event twice; here the second is refused."""
    return f"{inputs['bucket']} {short_name(inputs['topic'])} {inputs.get('objectNamePrefix', '')}*"


def _notification_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from one_of(inputs, "payloadFormat", ("JSON_API_V1", "NONE"))
    if len((at(inputs, "objectNamePrefix") or "").encode()) > _PREFIX_BYTES:
        yield Failure("objectNamePrefix", f"is longer than {_PREFIX_BYTES} bytes")
    for index, event in enumerate(inputs.get("eventTypes", [])):
        yield from (
            Failure(f"eventTypes[{index}]", failure.reason) for failure in one_of({"event": event}, "event", _EVENTS)
        )


def _notification_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    if world.find(BUCKET, inputs["bucket"]) is None:
        yield Failure("bucket", f"bucket {inputs['bucket']} does not exist")
    if world.find(TOPIC, inputs["topic"]) is None:
        yield Failure("topic", f"topic {inputs['topic']} does not exist")
        return
    target = Target(Kind.TOPIC, short_name(inputs["topic"]))
    missing = world.missing_grant(world.agent(_AGENT), _PUBLISHERS, target)
    if missing is not None:
        yield Failure("topic", f"Cloud Storage's agent may not publish to it; {missing}")


def _notification_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    number = str(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    full = f"{inputs['bucket']}/notificationConfigs/{number}"
    return {"id": full, "notificationId": number, "selfLink": f"https://www.googleapis.com/storage/v1/b/{full}"}


BEHAVIOURS: Final = {
    BUCKET: Behaviour(
        name=_bucket_name,
        auto_name="name",
        computed=_bucket_computed,
        defaults=lambda inputs: {
            "storageClass": "STANDARD",
            "publicAccessPrevention": "inherited",
            "uniformBucketLevelAccess": False,
            "forceDestroy": False,
            "softDeletePolicy": {"retentionDurationSeconds": _SOFT_DELETE[0]},
            "deletionPolicy": "DELETE",
            **inputs,
        },
        rules=_bucket_rules,
        immutable=frozenset({"name", "location", "project", "customPlacementConfig", "hierarchicalNamespace"}),
        guard=_bucket_guard,
    ),
    NOTIFICATION: Behaviour(
        name=_notification_name,
        computed=_notification_computed,
        rules=_notification_rules,
        missing=_notification_missing,
        immutable=frozenset({"bucket", "topic", "payloadFormat", "eventTypes", "objectNamePrefix", "customAttributes"}),
    ),
}
