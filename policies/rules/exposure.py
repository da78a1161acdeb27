"""From where services can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..resource import ENDPOINT_GROUP, Resource
from ..rule import Context, Level, Rule, Scope, Severity, rule
from ..service import Service, origin
from ..subscription import Delivery, Subscription
from ..workload import Role
from .identity import PUBLIC

_INSIDE: Final = frozenset({Role.WORKER, Role.EXECUTOR})
"""Services that take work from inside only."""


@rule(
    "X01",
    "Only services named as public admit traffic from the internet",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="the service can be reached around everything that protects it",
    fix="Set ingress to INGRESS_TRAFFIC_INTERNAL_ONLY, or name the service in this rule's `public_services`",
    options={"public_services": PUBLIC},
)
def x01(service: Service, context: Context) -> Iterator[str]:
    """An absent ingress admits everyone."""
    if not service.is_internal and not context.lists("public_services", service.name):
        yield "it admits traffic from the internet, and is not named as public"


@rule(
    "X02",
    "A worker admits traffic from inside the project only",
    over=lambda facts: [each for each in facts.services if each.role is Role.WORKER],
    scope=Scope.RESOURCE,
    breaks="messages can be handed to the worker from outside, or through a load balancer",
    fix="Set ingress to INGRESS_TRAFFIC_INTERNAL_ONLY; Pub/Sub counts as inside",
)
def x02(service: Service, _: Context) -> Iterator[str]:
    """Internal only; the load balancer has no business with it."""
    if service.ingress == "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER":
        yield "it admits traffic of load balancers"


@rule(
    "X03",
    "No load balancer leads to a service that is not public",
    over=lambda facts: facts.of(ENDPOINT_GROUP),
    breaks="an internal service can be called from the internet",
    fix="Take the service out of the URL map, and name a service in place of a URL mask",
)
def x03(group: Resource, context: Context) -> Iterator[str]:
    """Endpoint groups of load balancers, and the services behind them."""
    is_masked = group.properties.has("cloudRun", "urlMask")
    if is_masked and any(service.role in _INSIDE for service in context.facts.services):
        yield "its URL mask leads to whichever service a caller names, also to those that take work from inside only"
    name = group.properties.known_text("cloudRun", "service")
    made_from = group.came_from("cloudRun")
    for service in context.facts.services:
        if service.urn in made_from or (name is not None and name == service.name):
            if service.role in _INSIDE:
                yield f"it leads to {service.name}, which takes work from inside only"
            return
    if name is None and group.properties.has("cloudRun") and not made_from and not is_masked:
        group.properties.text("cloudRun", "service")


@rule(
    "X05",
    "A subscription and the service that it pushes to are in one project",
    over=lambda facts: facts.deliveries,
    breaks="pushes from another project count as traffic from outside, and are refused",
    fix="Declare both in one project",
)
def x05(delivery: Delivery, _: Context) -> Iterator[str]:
    """Compared where both say their project."""
    one = delivery.subscription.properties.known_text("project")
    other = delivery.service.properties.known_text("project")
    if one is not None and other is not None and one != other:
        yield f"it is in {one}, but its service is in {other}"


@rule(
    "X06",
    "A push subscription leads to a service of the program",
    over=lambda facts: facts.pushes,
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="no rule can compare the subscription's timeouts with those of the service",
    fix="Declare both in one program, or set this rule to disabled",
)
def x06(subscription: Subscription, context: Context) -> Iterator[str]:
    """Paired by property, by address, or by a declared dependency."""
    if context.facts.target(subscription) is None:
        yield "no declared service is at its endpoint"


@rule(
    "X07",
    "An internal service is pushed to at its own address",
    over=lambda facts: facts.pushes,
    breaks="internal services are not served under domains of your own, and every push is answered 404",
    fix="Push to the run.app address",
)
def x07(subscription: Subscription, context: Context) -> Iterator[str]:
    """A domain of one's own in front of an internal service; and no endpoint without TLS."""
    endpoint = subscription.properties.known_text("pushConfig", "pushEndpoint")
    if endpoint is None:
        return
    if not endpoint.startswith("https://"):
        yield "its endpoint is not https"
        return
    service = context.facts.target(subscription)
    if service is not None and service.is_internal and not origin(endpoint).endswith(".run.app"):
        yield "its endpoint is no run.app address, but the service is internal"


@rule(
    "X08",
    "A service that is called by its address has one",
    over=lambda facts: [delivery.service for delivery in facts.deliveries],
    scope=Scope.STACK,
    breaks="every push is answered 404",
    fix="Remove defaultUriDisabled",
)
def x08(service: Service, _: Context) -> Iterator[str]:
    """The run.app address is served."""
    if service.properties.flag("defaultUriDisabled"):
        yield "its run.app address is disabled, but messages are pushed to it"


RULES: Final[tuple[Rule, ...]] = (x01, x02, x03, x05, x06, x07, x08)
