"""Between Google's message classes and ours. The classes come from the installed client library."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from google.pubsub_v1 import types

from sandbox.pubsub.backlog import Lease
from sandbox.pubsub.declared import Subscription
from sandbox.pubsub.message import Draft

# Plain protocol buffers: the wrappers around them cost more than all the rest of a publish.
_Message = types.PubsubMessage.pb()
_Received = types.ReceivedMessage.pb()
_Topic = types.Topic.pb()
_Subscription = types.Subscription.pb()


def draft_of(message: Any) -> Draft:
    """What a publish request's message asks for; its id and time are ignored, as Pub/Sub does."""
    return Draft(data=message.data, attributes=dict(message.attributes), ordering_key=message.ordering_key)


def received(subscription: Subscription, lease: Lease) -> Any:
    """A delivered message with its ack id; the attempt only with a dead-letter policy."""
    message = lease.message
    pb = _Message(
        data=message.data,
        attributes=dict(message.attributes),
        message_id=str(message.id),
        ordering_key=message.ordering_key,
    )
    pb.publish_time.FromDatetime(message.published)
    attempt = lease.attempt if subscription.dead_letter is not None else 0
    return _Received(ack_id=lease.id, message=pb, delivery_attempt=attempt)


def topic_resource(name: str, labels: Mapping[str, str]) -> Any:
    """A topic as GetTopic answers it."""
    return _Topic(name=name, labels=dict(labels))


def subscription_resource(subscription: Subscription) -> Any:
    """A subscription as GetSubscription answers it."""
    pb = _Subscription(
        name=subscription.name,
        topic=subscription.topic,
        ack_deadline_seconds=int(subscription.ack_deadline.total_seconds()),
        retain_acked_messages=subscription.retain_acked,
        enable_message_ordering=subscription.ordered,
        filter=subscription.filter_text,
        labels=dict(subscription.labels),
    )
    _set(pb.message_retention_duration, subscription.retention)
    if subscription.push is not None:
        pb.push_config.push_endpoint = subscription.push.endpoint
        if subscription.push.account is not None:
            pb.push_config.oidc_token.service_account_email = subscription.push.account
            pb.push_config.oidc_token.audience = subscription.push.audience
    if subscription.retry is not None:
        _set(pb.retry_policy.minimum_backoff, subscription.retry.minimum)
        _set(pb.retry_policy.maximum_backoff, subscription.retry.maximum)
    if subscription.dead_letter is not None:
        pb.dead_letter_policy.dead_letter_topic = subscription.dead_letter.topic
        pb.dead_letter_policy.max_delivery_attempts = subscription.dead_letter.max_attempts
    return pb


def _set(duration: Any, value: timedelta) -> None:
    duration.FromTimedelta(value)
