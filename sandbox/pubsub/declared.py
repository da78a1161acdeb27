"""Topics and subscriptions as the program declares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import structlog

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import ACK_DEADLINE_DEFAULT, BROKER_ATTEMPTS_MIN
from sandbox.pubsub.backoff import RetryPolicy
from sandbox.pubsub.filter import Filter, parse_filter
from sandbox.pubsub.storage_config import StorageConfig, read_storage_config
from sandbox.world import SUBSCRIPTION, TOPIC, World, short_name

RETENTION_DEFAULT: Final = "604800s"
"""Pub/Sub: how long a subscription that names no retention keeps a message, 7 days."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d{1,9})?)s")

log = structlog.get_logger()


class UnreadableDeclaration(HoldfastError):
    """A declared resource that this service cannot do as asked."""

    code = "unreadable_declaration"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig:
    """Where a subscription's messages are posted.

    Attributes:
        endpoint: https address.
        account: e-mail of the account whose token is sent; None sends none.
        audience: audience of that token; the endpoint where the program names none.
    """

    endpoint: str
    account: str | None
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """Where a message goes that was delivered too often.

    Attributes:
        topic: full name.
        max_attempts: deliveries after which it goes there; 5 to 100.
    """

    topic: str
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One declared subscription.

    Attributes:
        name: full name, `projects/P/subscriptions/S`.
        topic: full name.
        ack_deadline: for push, how long the broker waits for the answer.
        retention: how long an unacknowledged message is kept.
        push: None where messages are pulled or exported.
        storage: how they are written to a bucket; None where they are not.
        exported: True where messages go to a bucket or table; those for a table are kept here until they are too old.
        retry: None means that a failed message is ready again at once.
        dead_letter: None means that a message is delivered until its retention ends.
        ordered: True delivers messages of one ordering key one after another.
        filter_text: as declared; "" lets everything through.
        matches: the same, as a test of attributes.
        retain_acked: told to whoever asks; has no effect, because seeking is not available here.
        labels: as declared.
    """

    name: str
    topic: str
    ack_deadline: timedelta
    retention: timedelta
    push: PushConfig | None
    storage: StorageConfig | None
    exported: bool
    retry: RetryPolicy | None
    dead_letter: DeadLetterPolicy | None
    ordered: bool
    filter_text: str
    matches: Filter = field(compare=False, repr=False)
    retain_acked: bool
    labels: Mapping[str, str]


def read_subscription(project: str, name: str, inputs: Mapping[str, Any]) -> Subscription:
    """A subscription from its resource's inputs.

    Args:
        project: project id, for short names.
        name: physical name, short or full.
        inputs: of a `gcp:pubsub/subscription:Subscription`; what is absent has Pub/Sub's default.

    Raises:
        UnreadableDeclaration: names subscription and field.
        InvalidFilter
    """
    retry = inputs.get("retryPolicy")
    letters = inputs.get("deadLetterPolicy")
    filter_text = str(inputs.get("filter") or "")

    def duration(value: object, where: str) -> timedelta:
        found = _DURATION.fullmatch(str(value))
        if found is None:
            raise UnreadableDeclaration(f"subscription {name}: {where} is {value!r}; write seconds, as in '600s'")
        return timedelta(seconds=float(found.group(1)))

    return Subscription(
        name=full_name(project, "subscriptions", name),
        topic=full_name(project, "topics", str(inputs["topic"])),
        ack_deadline=timedelta(seconds=int(inputs.get("ackDeadlineSeconds") or ACK_DEADLINE_DEFAULT)),
        retention=duration(inputs.get("messageRetentionDuration") or RETENTION_DEFAULT, "messageRetentionDuration"),
        push=_read_push(name, inputs.get("pushConfig")),
        storage=read_storage_config(inputs.get("cloudStorageConfig"), duration),
        exported=bool(inputs.get("bigqueryConfig") or inputs.get("cloudStorageConfig")),
        retry=RetryPolicy(
            minimum=duration(retry.get("minimumBackoff") or "10s", "retryPolicy.minimumBackoff"),
            maximum=duration(retry.get("maximumBackoff") or "600s", "retryPolicy.maximumBackoff"),
        )
        if retry is not None
        else None,
        dead_letter=DeadLetterPolicy(
            topic=full_name(project, "topics", str(letters["deadLetterTopic"])),
            max_attempts=int(letters.get("maxDeliveryAttempts") or BROKER_ATTEMPTS_MIN),
        )
        if letters and letters.get("deadLetterTopic")
        else None,
        ordered=bool(inputs.get("enableMessageOrdering")),
        filter_text=filter_text,
        matches=parse_filter(filter_text),
        retain_acked=bool(inputs.get("retainAckedMessages")),
        labels=dict(inputs.get("labels") or {}),
    )


def _read_push(name: str, config: Mapping[str, Any] | None) -> PushConfig | None:
    if not config or not config.get("pushEndpoint"):
        return None
    if config.get("noWrapper"):
        raise UnreadableDeclaration(
            f"subscription {name}: pushConfig.noWrapper is not available in the sandbox; leave it out"
        )
    token = config.get("oidcToken") or {}
    endpoint = str(config["pushEndpoint"])
    return PushConfig(
        endpoint=endpoint,
        account=token.get("serviceAccountEmail") or None,
        audience=str(token.get("audience") or endpoint),
    )


def full_name(project: str, kind: str, name: str) -> str:
    """`projects/P/topics/T` of a short name; a full one stays as it is."""
    return name if name.startswith("projects/") else f"projects/{project}/{kind}/{short_name(name)}"


class Declarations:
    """All declared topics and subscriptions, read again whenever the world has changed.

    Args:
        world: what is declared.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._revision = -1
        self.topics: Mapping[str, Mapping[str, str]] = {}
        """Full name -> labels."""
        self.subscriptions: Mapping[str, Subscription] = {}
        """By full name."""
        self.unreadable: Mapping[str, str] = {}
        """Subscriptions that are declared in a way that this service cannot do: full name -> reason."""

    def refresh(self) -> bool:
        """Reads the world where it has changed since the last call; True where it was read.

        A subscription that cannot be read is logged as an error and left out.
        """
        if self._revision == self._world.revision:
            return False
        self._revision = self._world.revision
        project = self._world.project
        self.topics = {
            full_name(project, "topics", topic.name): topic.inputs.get("labels") or {}
            for topic in self._world.of_type(TOPIC)
        }
        found, unreadable = {}, {}
        for resource in self._world.of_type(SUBSCRIPTION):
            name = full_name(project, "subscriptions", resource.name)
            try:
                found[name] = read_subscription(project, resource.name, resource.inputs)
            except HoldfastError as error:
                unreadable[name] = error.line()
        self.subscriptions, self.unreadable = found, unreadable
        for name, reason in unreadable.items():
            log.error("subscription_unreadable", subscription=name, reason=reason)
        return True
