"""Timeouts between a worker and the broker: how long it waits, how often it tries, where it pushes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..rule import Context, Rule, Severity, rule
from ..service import host
from ..subscription import Delivery, Subscription
from ..workload import Role
from .delivery_timeouts import SETTLE_BUDGET

ACK_MIN: Final = 10
ACK_MAX: Final = 600
"""Pub/Sub: shortest and longest ack deadline, seconds."""
ATTEMPTS_MIN: Final = 5
ATTEMPTS_MAX: Final = 100
"""Pub/Sub: fewest and most delivery attempts of a dead-letter policy."""
TOKEN_MARGIN: Final = 300
"""Seconds by which a job's token outlives the last delivery: clocks differ, and callbacks come after the work."""


@rule(
    "T05",
    "A worker is told the ack deadline that its subscription has",
    over=lambda facts: facts.deliveries,
    breaks="the worker answers after the broker has given up on it, and the message is repeated",
    fix="Set GCP_QUEUE_ACK_DEADLINE_SECS and ackDeadlineSeconds from one value of 10 to 600; absent means 10",
)
def t05(delivery: Delivery, _: Context) -> Iterator[str]:
    """Both are in Pub/Sub's range, and equal."""
    told = delivery.service.whole("GCP_QUEUE_ACK_DEADLINE_SECS")
    if not ACK_MIN <= delivery.ack <= ACK_MAX:
        yield f"ackDeadlineSeconds is {delivery.ack}"
    elif told is not None and told != delivery.ack:
        yield f"GCP_QUEUE_ACK_DEADLINE_SECS is {told}, but ackDeadlineSeconds is {delivery.ack}"


@rule(
    "T06",
    "The broker waits for as long as a request can answer, or for as long as it can",
    over=lambda facts: facts.work,
    breaks="the broker hangs up while the work goes on, and delivers the message again",
    fix="Set ackDeadlineSeconds to the service's request timeout, or to 600; absent means 10",
)
def t06(delivery: Delivery, _: Context) -> Iterator[str]:
    """Ack deadline against request timeout."""
    if delivery.ack < min(delivery.request, ACK_MAX):
        yield f"ackDeadlineSeconds is {delivery.ack}, but the service may answer after {delivery.request} s"


@rule(
    "T09",
    "The broker tries often enough for every allowed attempt, and the worker knows how often",
    over=lambda facts: facts.work,
    breaks="messages are dead-lettered before they were worked, or acknowledged before the broker forwards them",
    fix=(
        "Set maxDeliveryAttempts to ceiling x (1 + ceil((request - ack) / (park + minimum backoff))) + ceiling - 1 or "
        "more, and GCP_QUEUE_BROKER_MAX_ATTEMPTS to the same number"
    ),
)
def t09(delivery: Delivery, _: Context) -> Iterator[str]:
    """Attempts of the broker, of the environment, and of the work."""
    broker, told, ceiling = (
        delivery.subscription.attempts,
        delivery.service.whole("GCP_QUEUE_BROKER_MAX_ATTEMPTS"),
        delivery.ceiling,
    )
    if broker is None or (told is None and ceiling is None):
        return
    if not ATTEMPTS_MIN <= broker <= ATTEMPTS_MAX:
        yield f"maxDeliveryAttempts is {broker}, but must be {ATTEMPTS_MIN} to {ATTEMPTS_MAX}"
        return
    if told is not None and told != broker:
        yield f"GCP_QUEUE_BROKER_MAX_ATTEMPTS is {told}, but maxDeliveryAttempts is {broker}"
    if ceiling is None:
        return
    if told is None and broker > max(ceiling, ATTEMPTS_MIN):
        yield f"maxDeliveryAttempts is {broker}, but the worker gives up after {max(ceiling, ATTEMPTS_MIN)} deliveries"
    needed = _attempts_needed(delivery, ceiling)
    if needed is not None and broker < needed:
        yield f"maxDeliveryAttempts is {broker}, but {needed} are needed for {ceiling} attempts that work"


def _attempts_needed(delivery: Delivery, ceiling: int) -> int | None:
    """Broker attempts for a ceiling, None where the longest parking is not known and matters."""
    beyond = delivery.request - delivery.ack
    if beyond <= 0:
        return 2 * ceiling - 1
    park = delivery.park
    if park is None:
        return None
    pause = max(1, park + delivery.subscription.min_backoff)
    return ceiling * (1 + (beyond + pause - 1) // pause) + ceiling - 1


@rule(
    "T10",
    "A message, and the run that it carries, live for as long as the broker may try",
    over=lambda facts: facts.work,
    breaks="a message is dropped, or its run given up, while attempts are left",
    fix=(
        "Set messageRetentionDuration, and API_MAX_QUEUE_AGE_SECS, to attempts x (ack deadline + maximum backoff) or "
        "more"
    ),
)
def t10(delivery: Delivery, context: Context) -> Iterator[str]:
    """Retention and queue age against the longest that the broker may try."""
    attempts = delivery.subscription.attempts
    if attempts is None:
        return
    bound = attempts * (delivery.ack + delivery.subscription.max_backoff)
    if delivery.subscription.retention < bound:
        yield f"messages are kept {delivery.subscription.retention} s, but attempts may go on for {bound} s"
    for api in context.facts.publishers(delivery):
        age = api.whole("API_MAX_QUEUE_AGE_SECS")
        if age is not None and age < bound:
            yield f"API_MAX_QUEUE_AGE_SECS of {api.name} is {age}, but attempts may go on for {bound} s"


@rule(
    "T11",
    "The broker pushes to the service's own address, with a token that the service expects",
    over=lambda facts: facts.pushes,
    severity=Severity.CRITICAL,
    breaks="every push is refused, or goes where nobody listens",
    fix=(
        "Set pushEndpoint, the token's audience and PUBSUB_PUSH_AUDIENCE to the service's address; list any other "
        "audience in customAudiences"
    ),
)
def t11(subscription: Subscription, context: Context) -> Iterator[str]:
    """Endpoint, audience, and what the worker expects."""
    service = context.facts.target(subscription)
    if service is None:
        if subscription.endpoint is None:
            yield "it pushes, but names no endpoint"
        return
    delivery = Delivery(subscription, service)
    if delivery.is_from_service and subscription.properties.known("pushConfig", "pushEndpoint") is None:
        return
    yield from _endpoint_faults(delivery)
    yield from _audience_faults(delivery)


def _endpoint_faults(delivery: Delivery) -> Iterator[str]:
    endpoint, address = delivery.subscription.endpoint, delivery.address
    if endpoint is None:
        yield "it pushes, but names no endpoint"
    elif host(endpoint) != host(address):
        yield f"the endpoint is not on {address}, the service's address"
    elif delivery.service.role is Role.WORKER and endpoint.removesuffix("/") != address:
        yield f"the endpoint must be {address} alone: the worker takes messages at path /"


def _audience_faults(delivery: Delivery) -> Iterator[str]:
    audience, address = delivery.audience, delivery.address
    if audience is None:
        return
    expected = delivery.service.variable("PUBSUB_PUSH_AUDIENCE")
    if expected and audience != expected:
        yield "the token's audience is not the one that PUBSUB_PUSH_AUDIENCE names"
    if audience.removesuffix("/") == address:
        return
    if delivery.service.role is Role.WORKER and not expected:
        yield "the token's audience is not the service's address, and a worker without PUBSUB_PUSH_AUDIENCE expects it"
    elif audience not in delivery.service.properties.texts("customAudiences"):
        yield "the token's audience is neither the service's address nor one of its custom audiences"


@rule(
    "T12",
    "Where the broker hangs up before the answer, the work goes on and its redelivery finds room to wait",
    over=lambda facts: facts.work,
    breaks="the work loses its CPU, or its redelivery is turned away and costs an attempt",
    fix=(
        "Give the service cpuIdle: false and room for two requests, and keep the shorter of stale age and process "
        "timeout 30 s under the ack deadline"
    ),
)
def t12(delivery: Delivery, _: Context) -> Iterator[str]:
    """Only for requests that are longer than the ack deadline."""
    if delivery.request <= delivery.ack:
        return
    service, park = delivery.service, delivery.park
    instances = service.declared_max_instances
    if instances is not None and instances * service.concurrency < 2:
        yield f"there is room for one request only, but requests of {delivery.request} s outlast the broker's patience"
    if service.cpu_idle:
        yield f"the CPU is taken away between requests, but requests of {delivery.request} s outlast the ack deadline"
    if park is not None and park > delivery.ack - SETTLE_BUDGET:
        yield f"a redelivery parks for {park} s, but the broker waits for {delivery.ack} s only"


@rule(
    "T15",
    "A job's token outlives its message",
    over=lambda facts: facts.work,
    breaks="a late delivery is refused for good, because its token has expired",
    fix="Set API_JOB_TOKEN_LIFE_SECS to message retention + request timeout + 300 or more",
)
def t15(delivery: Delivery, context: Context) -> Iterator[str]:
    """Token life against retention and request timeout."""
    needed = delivery.subscription.retention + delivery.request + TOKEN_MARGIN
    for api in context.facts.publishers(delivery):
        life = api.whole("API_JOB_TOKEN_LIFE_SECS")
        if life is not None and life < needed:
            yield f"API_JOB_TOKEN_LIFE_SECS of {api.name} is {life}, but {needed} are needed"


RULES: Final[tuple[Rule, ...]] = (t05, t06, t09, t10, t11, t12, t15)
