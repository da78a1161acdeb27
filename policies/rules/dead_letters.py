"""No message is lost: dead letters, their grants, and subscriptions that stay."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from ..facts import Facts
from ..grant import Grant
from ..resource import BUCKET
from ..rule import Context, Level, Rule, Scope, Severity, rule
from ..subscription import ACK_DEFAULT, RETENTION_DEFAULT, Delivery, Subscription

_FULL_TOPIC: Final = re.compile(r"projects/[^/]+/topics/[^/]+", re.ASCII)
_PUBLISHERS: Final = frozenset({"roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin"})
_SUBSCRIBERS: Final = frozenset({"roles/pubsub.subscriber", "roles/pubsub.editor", "roles/pubsub.admin"})
_SINK_ROLES: Final = ("roles/storage.objectCreator", "roles/storage.legacyBucketReader")
ACK_SHORT: Final = 60
"""An ack deadline under this is shorter than a cold start with some work, seconds."""


def _giving_up(facts: Facts) -> list[Subscription]:
    return [subscription for subscription in facts.subscriptions if subscription.has_dead_letters]


def _granted(grants: list[Grant], roles: Collection[str]) -> bool:
    """Whether one of the grants gives Pub/Sub's agent one of the roles."""
    return any(grant.is_for_pubsub and grant.properties.known_text("role") in roles for grant in grants)


@rule(
    "D01",
    "A push subscription has a dead-letter policy",
    over=lambda facts: facts.sources,
    breaks="a message that can never be worked is delivered until it expires, and then it is gone",
    fix="Add deadLetterPolicy with a topic of its own",
)
def d01(subscription: Subscription, _: Context) -> Iterator[str]:
    """A dead-letter policy, on all but subscriptions to dead letters."""
    if not subscription.has_dead_letters:
        yield "it has no deadLetterPolicy"


@rule(
    "D02",
    "Dead letters go to a topic by its full name, and not back to their source",
    over=_giving_up,
    breaks="Pub/Sub refuses the policy, looks in another project, or delivers the message for ever",
    fix="Use the id of another topic: projects/PROJECT/topics/NAME",
)
def d02(subscription: Subscription, context: Context) -> Iterator[str]:
    """Form of the name, and whose it is."""
    text = subscription.properties.known_text("deadLetterPolicy", "deadLetterTopic")
    topic = context.facts.dead_letter_topic_of(subscription)
    if topic is None:
        subscription.properties.text("deadLetterPolicy", "deadLetterTopic")
        yield "its deadLetterPolicy names no topic"
    elif text is not None and not _FULL_TOPIC.fullmatch(text):
        yield "deadLetterTopic is no full name projects/PROJECT/topics/NAME"
    elif topic == context.facts.topic_of(subscription):
        yield "deadLetterTopic is the topic that the subscription is on"


@rule(
    "D03",
    "A dead-letter topic has a subscription that keeps what arrives",
    over=_giving_up,
    severity=Severity.CRITICAL,
    breaks="dead letters are dropped the moment they are forwarded",
    fix='Add a subscription on the topic that keeps every message for 7 days or more and never expires (ttl: "")',
)
def d03(subscription: Subscription, context: Context) -> Iterator[str]:
    """Some subscription on the dead-letter topic is retained."""
    topic = context.facts.dead_letter_topic_of(subscription)
    kept = [other for other in context.facts.subscriptions if context.facts.topic_of(other) == topic]
    if topic is None or not any(_keeps_everything(other) for other in kept if other.urn != subscription.urn):
        yield "no declared subscription keeps all messages of its dead-letter topic"


def _keeps_everything(subscription: Subscription) -> bool:
    is_kept = subscription.retention >= RETENTION_DEFAULT and not subscription.expires
    return is_kept and not subscription.filters and not subscription.resource.transforms


@rule(
    "D04",
    "Pub/Sub's agent may publish to the dead-letter topic",
    over=_giving_up,
    severity=Severity.CRITICAL,
    breaks="nothing is ever forwarded, and messages are delivered for ever; no log says why",
    fix=(
        "Grant roles/pubsub.publisher on the topic to "
        "serviceAccount:service-PROJECTNUMBER@gcp-sa-pubsub.iam.gserviceaccount.com"
    ),
)
def d04(subscription: Subscription, context: Context) -> Iterator[str]:
    """The grant on the dead-letter topic."""
    name = context.facts.dead_letter_topic_of(subscription)
    topic = context.facts.topic(name) if name is not None else None
    if not _granted(context.facts.held_on(topic, name), _PUBLISHERS):
        yield "Pub/Sub's agent has no unconditional grant to publish to its dead-letter topic"


@rule(
    "D05",
    "Pub/Sub's agent may acknowledge on a subscription with dead letters",
    over=_giving_up,
    severity=Severity.CRITICAL,
    breaks="a forwarded message stays on its subscription and is delivered for ever",
    fix=(
        "Grant roles/pubsub.subscriber on the subscription to "
        "serviceAccount:service-PROJECTNUMBER@gcp-sa-pubsub.iam.gserviceaccount.com"
    ),
)
def d05(subscription: Subscription, context: Context) -> Iterator[str]:
    """The grant on the source subscription."""
    if not _granted(context.facts.held_on(subscription.resource), _SUBSCRIBERS):
        yield "Pub/Sub's agent has no unconditional subscriber grant on it"


@rule(
    "D06",
    "Pub/Sub's agent may write to the bucket of a storage subscription",
    over=lambda facts: [each for each in facts.subscriptions if each.properties.has("cloudStorageConfig")],
    breaks="the subscription writes nothing, and its messages expire",
    fix="Grant the agent roles/storage.objectCreator and roles/storage.legacyBucketReader on the bucket",
)
def d06(subscription: Subscription, context: Context) -> Iterator[str]:
    """Both grants on the sink."""
    name = subscription.properties.known_text("cloudStorageConfig", "bucket")
    bucket = context.facts.source(subscription.resource, BUCKET, "cloudStorageConfig")
    for role in _SINK_ROLES:
        if not _granted(context.facts.held_on(bucket, name), {role}):
            yield f"Pub/Sub's agent has no unconditional {role} on its bucket"


@rule(
    "D07",
    "A subscription never expires",
    over=lambda facts: facts.subscriptions,
    scope=Scope.RESOURCE,
    breaks="a subscription that is idle for a month is removed, and what is published then is lost",
    fix='Set expirationPolicy with ttl: ""',
)
def d07(subscription: Subscription, _: Context) -> Iterator[str]:
    """No expiry, and not the default one."""
    if subscription.expires:
        yield "it expires when it is idle"


@rule(
    "D08",
    "A push subscription has a retry policy",
    over=lambda facts: facts.pushes,
    scope=Scope.RESOURCE,
    breaks="a busy or broken service is hammered, and every refusal costs an attempt",
    fix="Add retryPolicy with minimumBackoff and maximumBackoff",
)
def d08(subscription: Subscription, _: Context) -> Iterator[str]:
    """Exponential backoff."""
    if not subscription.properties.has("retryPolicy"):
        yield "it has no retryPolicy, so messages are repeated at once"


@rule(
    "D09",
    "A push subscription does not ask for exactly-once delivery",
    over=lambda facts: facts.pushes,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="someone relies on what push cannot give, and work is done twice",
    fix="Remove enableExactlyOnceDelivery; workers claim messages",
)
def d09(subscription: Subscription, _: Context) -> Iterator[str]:
    """Exactly-once is for pull alone."""
    if subscription.properties.flag("enableExactlyOnceDelivery"):
        yield "it asks for exactly-once delivery, which push does not have"


@rule(
    "D10",
    "A push subscription says how long the broker waits",
    over=lambda facts: facts.pushes,
    scope=Scope.RESOURCE,
    breaks="requests are abandoned and repeated every ten seconds while the work goes on",
    fix="Set ackDeadlineSeconds to the service's request timeout, at most 600; the default is 10",
)
def d10(subscription: Subscription, _: Context) -> Iterator[str]:
    """An ack deadline of its own, of a minute or more."""
    given = subscription.properties.number("ackDeadlineSeconds")
    if not given:
        yield f"it has no ackDeadlineSeconds, so the broker waits {ACK_DEFAULT} s"
    elif given < ACK_SHORT:
        yield f"ackDeadlineSeconds is {given}, which is shorter than many cold starts"


@rule(
    "D11",
    "A subscription delivers every message of its topic",
    over=lambda facts: facts.subscriptions,
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.LOW,
    breaks="what the filter leaves out is acknowledged unseen, and a changed filter replaces the subscription",
    fix="Remove the filter, or set this rule to disabled where it is meant",
)
def d11(subscription: Subscription, _: Context) -> Iterator[str]:
    """No filter."""
    if subscription.filters:
        yield "it has a filter"


@rule(
    "D12",
    "Holdfast gets messages as they were published, in Pub/Sub's envelope",
    over=lambda facts: [each for each in facts.deliveries if each.service.role is not None],
    breaks="the service cannot read what it is pushed, and every message becomes a dead letter",
    fix="Remove pushConfig.noWrapper and the messageTransforms of the subscription and of its topic",
)
def d12(delivery: Delivery, context: Context) -> Iterator[str]:
    """No bare payloads, no changed messages."""
    if delivery.subscription.properties.has("pushConfig", "noWrapper"):
        yield "it pushes payloads without their envelope"
    name = context.facts.topic_of(delivery.subscription)
    topic = context.facts.topic(name) if name is not None else None
    if delivery.subscription.resource.transforms or (topic is not None and topic.transforms):
        yield "its messages are changed on their way"


RULES: Final[tuple[Rule, ...]] = (d01, d02, d03, d04, d05, d06, d07, d08, d09, d10, d11, d12)
