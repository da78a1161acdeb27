"""Names, labels and places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..properties import UNKNOWN
from ..resource import (
    ACCOUNT,
    BUCKET,
    DATABASE,
    SCHEDULER_JOB,
    SECRET,
    SERVICE,
    SQL_INSTANCE,
    SUBSCRIPTION,
    TOPIC,
    Resource,
)
from ..rule import Context, Level, Option, Rule, Scope, Severity, rule
from ..service import Service

_LABELLED: Final = (SERVICE, SUBSCRIPTION, TOPIC, SECRET, BUCKET)
_OTHER_LABELS: Final = frozenset({"gcp:monitoring/notificationChannel:NotificationChannel"})
"""Types whose `labels` are settings, like the address that is written to."""
_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}", re.ASCII)
_SERVICE_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,47}[a-z0-9])?", re.ASCII)
_ACCOUNT_ID: Final = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", re.ASCII)
_PUBSUB_NAME: Final = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}", re.ASCII)

_CONTINENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "eu": ("europe-",),
    "eur": ("europe-",),
    "us": ("us-",),
    "nam": ("us-", "northamerica-"),
    "asia": ("asia-",),
}
"""Beginning of a wider location's name -> that of the regions in it. The number behind it says which of them; that is
not looked at."""
_WIDER: Final = re.compile(rf"({'|'.join(_CONTINENTS)})\d*", re.ASCII)


@rule(
    "L01",
    "Labels are texts that the platform takes",
    over=lambda facts: [each for each in facts.resources if each.type.startswith("gcp:")],
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="the provider fails, or shows the same change for ever",
    fix="Use lower case letters, digits, - and _, at most 63; numbers as text",
)
def l01(resource: Resource, _: Context) -> Iterator[str]:
    """Keys and values."""
    places = ("userLabels",) if resource.type in _OTHER_LABELS else ("labels", "userLabels")
    for key, value in [each for place in places for each in resource.properties.mapping(place).items()]:
        fits = value is UNKNOWN or (isinstance(value, str) and _VALUE.fullmatch(value))
        if not _KEY.fullmatch(key) or not fits:
            yield f"the label {key} does not fit"


@rule(
    "L02",
    "Resources say whose they are",
    over=lambda facts: facts.of(*_LABELLED),
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.LOW,
    breaks="nobody knows which stack made them, or what they cost",
    fix="Add the labels, or change this rule's `required_labels`",
    options={"required_labels": Option("labels that a resource must have", ("product", "stack", "part"))},
)
def l02(resource: Resource, context: Context) -> Iterator[str]:
    """Labels that everything has."""
    missing = [key for key in context.texts("required_labels") if key not in resource.properties.mapping("labels")]
    if missing:
        yield f"it has no label {', '.join(missing)}"


@rule(
    "L03",
    "Services, topics and subscriptions have names of their own",
    over=lambda facts: facts.of(SERVICE, TOPIC, SUBSCRIPTION),
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="a replacement gets another name, and with it another address and other grants",
    fix="Set name; a generated one has seven characters that change",
)
def l03(resource: Resource, _: Context) -> Iterator[str]:
    """A name is given. What the provider makes up is the name in the program with seven digits."""
    name = resource.properties.known_text("name")
    if not resource.properties.has("name") or (name is not None and _is_generated(name, resource)):
        yield "it has no name of its own"


def _is_generated(name: str, resource: Resource) -> bool:
    return re.fullmatch(rf"{re.escape(resource.name)}-[0-9a-f]{{7}}", name, re.ASCII) is not None


@rule(
    "L04",
    "Names are names that the platform takes",
    over=lambda facts: facts.of(SERVICE, TOPIC, SUBSCRIPTION, ACCOUNT),
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="the deployment fails half-way",
    fix="Services: up to 49 of a-z, 0-9 and -; accounts: 6 to 30 of them; topics and subscriptions: 3 to 255",
)
def l04(resource: Resource, _: Context) -> Iterator[str]:
    """Shapes and lengths."""
    place = "accountId" if resource.type == ACCOUNT else "name"
    shape = {SERVICE: _SERVICE_NAME, ACCOUNT: _ACCOUNT_ID}.get(resource.type, _PUBSUB_NAME)
    name = resource.properties.known_text(place)
    if name is not None and not shape.fullmatch(name.rpartition("/")[2]):
        yield f"its {place} does not fit"


@rule(
    "L05",
    "A service says its region",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="it is deployed where the provider's default happens to be, and its address changes with that",
    fix="Set location",
)
def l05(service: Service, _: Context) -> Iterator[str]:
    """A region is given."""
    if not service.properties.has("location"):
        yield "it has no location"


@rule(
    "L06",
    "A program is in one region",
    over=lambda facts: facts.of(SERVICE, SCHEDULER_JOB, TOPIC, BUCKET, DATABASE, SQL_INSTANCE),
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="events do not arrive, or every message and record crosses a border and is paid for",
    fix="Use one region for services, jobs, buckets, databases and the topics' message storage policy, or a wider "
    "location around it",
)
def l06(resource: Resource, context: Context) -> Iterator[str]:
    """The region of the first service is that of all."""
    regions = [service.location for service in context.facts.services if service.location is not None]
    if not regions:
        return
    allowed = resource.properties.known("messageStoragePolicy", "allowedPersistenceRegions")
    places = (resource.properties.known_text(name) for name in ("location", "locationId", "region"))
    own = next((place for place in places if place is not None), None)
    if (own is not None and not _holds(own, regions[0])) or (isinstance(allowed, list) and regions[0] not in allowed):
        yield f"it is not in {regions[0]}, where the first service is"


def _holds(location: str, region: str) -> bool:
    """Whether a location is a region, or one of the wider ones around it, like EU, eur3 or nam5."""
    wider = _WIDER.fullmatch(location.lower())
    return region.startswith(_CONTINENTS[wider[1]]) if wider else location.lower() == region


RULES: Final[tuple[Rule, ...]] = (l01, l02, l03, l04, l05, l06)
