"""A subscription: where it pushes, how long it waits, how often it tries, where it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .properties import Unreadable
from .resource import Facet
from .service import Service

ACK_DEFAULT: Final = 10
"""Pub/Sub: ack deadline of a subscription that names none, seconds; 0 means the same."""
RETENTION_DEFAULT: Final = 604_800
"""Pub/Sub: seven days."""
ATTEMPTS_DEFAULT: Final = 5
"""Pub/Sub: delivery attempts of a dead-letter policy that names none; 0 means the same."""
BACKOFF_MIN_DEFAULT: Final = 10
"""Pub/Sub: shortest pause of a retry policy that names none, seconds."""
BACKOFF_MAX_DEFAULT: Final = 600
"""Pub/Sub: longest pause of a retry policy that names none, seconds."""
PUSH_BACKOFF_MAX: Final = 60
"""Pub/Sub: longest pause between pushes where there is no retry policy, seconds."""


class Subscription(Facet):
    """Facts about a subscription, read as they are asked for; what is absent is the platform's default."""

    @property
    def pushes(self) -> bool:
        """Whether messages are pushed to an endpoint."""
        return self.properties.has("pushConfig") and self.properties.known("pushConfig") != {}

    @property
    def endpoint(self) -> str | None:
        """Where it pushes to."""
        return self.properties.text("pushConfig", "pushEndpoint")

    @property
    def ack_deadline(self) -> int:
        """Seconds that the broker waits for an answer."""
        return self.properties.number("ackDeadlineSeconds") or ACK_DEFAULT

    @property
    def retention(self) -> int:
        """Seconds that a message is kept."""
        given = self.properties.seconds("messageRetentionDuration")
        return RETENTION_DEFAULT if given is None else given

    @property
    def has_dead_letters(self) -> bool:
        """Whether it has a dead-letter policy."""
        return self.properties.has("deadLetterPolicy")

    @property
    def attempts(self) -> int | None:
        """Delivery attempts before a message is a dead letter, None where it never is."""
        if not self.has_dead_letters:
            return None
        return self.properties.number("deadLetterPolicy", "maxDeliveryAttempts") or ATTEMPTS_DEFAULT

    @property
    def min_backoff(self) -> int:
        """Shortest pause before a redelivery, seconds."""
        if not self.properties.has("retryPolicy"):
            return 0
        given = self.properties.seconds("retryPolicy", "minimumBackoff")
        return BACKOFF_MIN_DEFAULT if given is None else given

    @property
    def max_backoff(self) -> int:
        """Longest pause before a redelivery, seconds."""
        if not self.properties.has("retryPolicy"):
            return PUSH_BACKOFF_MAX
        given = self.properties.seconds("retryPolicy", "maximumBackoff")
        return BACKOFF_MAX_DEFAULT if given is None else given

    @property
    def filters(self) -> bool:
        """Whether it leaves messages out."""
        return self.properties.has("filter") and self.properties.known("filter") != ""

    @property
    def expires(self) -> bool:
        """Whether it is removed when it is idle; without a policy it is, after 31 days."""
        return not self.properties.has("expirationPolicy") or bool(self.properties.text("expirationPolicy", "ttl"))


@dataclass(frozen=True, slots=True)
class Delivery:
    """A subscription and the service that it pushes to."""

    subscription: Subscription
    service: Service

    @property
    def urn(self) -> str:
        """Where violations point to: the subscription."""
        return self.subscription.urn

    @property
    def request(self) -> int:
        """Request timeout of the service."""
        return self.service.timeout

    @property
    def ack(self) -> int:
        """Ack deadline of the subscription."""
        return self.subscription.ack_deadline

    @property
    def process(self) -> int | None:
        """Deadline of a delivery inside the service."""
        return self.service.whole("GCP_QUEUE_PROCESS_TIMEOUT_SECS")

    @property
    def run(self) -> int | None:
        """Longest a run, or a compilation, may take inside a delivery."""
        given = self.service.whole("EXECUTOR_TIMEOUT_SECS")
        return self.service.whole("COMPILER_TIMEOUT_SECS") if given is None else given

    @property
    def stale_after(self) -> int | None:
        """Age of a heartbeat at which its claim may be taken over."""
        return self.service.whole("GCP_QUEUE_CLAIM_STALE_AFTER_SECS")

    @property
    def park(self) -> int | None:
        """Longest a delivery waits for another of the same message."""
        process, stale_after = self.process, self.stale_after
        return None if process is None or stale_after is None else min(process, stale_after)

    @property
    def ceiling(self) -> int | None:
        """Most attempts that work on one message."""
        return self.service.whole("GCP_QUEUE_MAX_DELIVERY_ATTEMPTS")

    @property
    def audience(self) -> str | None:
        """Audience of the push tokens: what is asked for, else the endpoint; None without tokens."""
        properties = self.subscription.properties
        if not properties.has("pushConfig", "oidcToken"):
            return None
        return properties.text("pushConfig", "oidcToken", "audience") or self.subscription.endpoint

    @property
    def is_from_service(self) -> bool:
        """Whether the push settings were made from what the service puts out."""
        return self.service.urn in self.subscription.resource.came_from("pushConfig")

    @property
    def address(self) -> str:
        """The service's address.

        Raises:
            Unreadable: nothing says which it is.
        """
        known = self.service.addresses
        named = [address for address in known if self.service.has_name_in(address)]
        if named or known:
            return (named or list(known))[0].rstrip("/")
        endpoint = self.subscription.endpoint
        if endpoint is not None and self.service.has_name_in(endpoint):
            return "/".join(endpoint.split("/")[:3])
        raise Unreadable("the service's address", "neither the service nor the endpoint tells it")
