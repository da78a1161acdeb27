"""What keeps state: databases, buckets, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..facts import Facts
from ..grant import STORAGE_AGENT, Grant
from ..resource import BUCKET, DATABASE, FIELD, NOTIFICATION, REPOSITORY, SECRET, SERVICE, SQL_INSTANCE, TOPIC, Resource
from ..rule import Context, Level, Option, Rule, Scope, Severity, rule
from ..service import Service
from ..workload import Role

TTL_FIELD: Final = "expires_at_ts"
_CLAIMS: Final = "pubsub-claims"
_RECORDS: Final = ("runs", "run_payloads", "run_results", "run_events", "dead_letters", "dead_letter_payloads")
_PROTECTED: Final = {
    SERVICE: "deletionProtection",
    SECRET: "deletionProtection",
    SQL_INSTANCE: "deletionProtection",
    DATABASE: "deleteProtectionState",
}
_PUBLISHERS: Final = frozenset({"roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin"})


@rule(
    "S01",
    "Deletion protection is said, not left to a default",
    over=lambda facts: facts.of(*_PROTECTED),
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="a test stack cannot be destroyed, or one that matters can",
    fix="Set deletionProtection, or deleteProtectionState, from one setting of the stack",
)
def s01(resource: Resource, _: Context) -> Iterator[str]:
    """Said, whichever way."""
    if not resource.properties.has(_PROTECTED[resource.type]):
        yield f"it does not say {_PROTECTED[resource.type]}"


@rule(
    "S02",
    "What production runs on is protected against deletion",
    over=lambda facts: facts.of(*_PROTECTED, BUCKET, REPOSITORY),
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="a mistaken destroy, or a replacement, deletes records, users' files, or the images that services run",
    fix=(
        "Turn deletion protection on, and a bucket's forceDestroy off; set a repository's deletionPolicy to PREVENT; "
        "or take the stack out of this rule's `production_stacks`"
    ),
    options={"production_stacks": Option("names of stacks; * stands for any text", ("prod", "prod-*", "production"))},
)
def s02(resource: Resource, context: Context) -> Iterator[str]:
    """Protected where the stack is one of production; what says nothing is S01's."""
    if not context.lists("production_stacks", resource.stack):
        return
    if resource.type == BUCKET:
        if resource.properties.flag("forceDestroy"):
            yield "it is destroyed with all that is in it, in a production stack"
    elif resource.type == REPOSITORY:
        if resource.properties.text("deletionPolicy") not in {"PREVENT", "ABANDON"}:
            yield "nothing keeps it and its images from being deleted, in a production stack"
    elif resource.properties.value(_PROTECTED[resource.type]) not in (None, True, "DELETE_PROTECTION_ENABLED"):
        yield "its deletion protection is off in a production stack"


@rule(
    "S03",
    "Records that are meant to go have a TTL policy",
    over=lambda facts: [each for each in facts.services if each.role in {Role.WORKER, Role.API}],
    breaks="claims and records pile up for ever",
    fix=f"Add a firestore.Field with ttlConfig on {TTL_FIELD} of the collection",
)
def s03(service: Service, context: Context) -> Iterator[str]:
    """Collections that a service of ours writes."""
    if service.role is Role.API and service.variable("EXECUTION_STATE_BACKEND") not in {None, "firestore"}:
        return
    prefix = service.variable("FIRESTORE_COLLECTION_PREFIX") or ""
    database = service.variable("FIRESTORE_DATABASE") or "(default)"
    claims = service.variable("FIRESTORE_CLAIMS_COLLECTION") or _CLAIMS
    kept = _expiring(context.facts, database)
    for collection in (claims,) if service.role is Role.WORKER else _RECORDS:
        if f"{prefix}{collection}" not in kept:
            yield f"its collection {prefix}{collection} has no TTL policy"


def _expiring(facts: Facts, database: str) -> set[str]:
    """Collections of a database with a TTL policy."""
    found = set()
    for field in facts.of(FIELD):
        named = field.properties.text("database") or "(default)"
        if named == database and field.properties.text("field") == TTL_FIELD and field.properties.has("ttlConfig"):
            found.add(field.properties.text("collection") or "")
    return found


@rule(
    "S04",
    "A Firestore database is in native mode",
    over=lambda facts: facts.of(DATABASE),
    scope=Scope.RESOURCE,
    breaks="every claim fails, and no job is worked",
    fix="Set type to FIRESTORE_NATIVE",
)
def s04(database: Resource, _: Context) -> Iterator[str]:
    """The mode cannot be changed while there is data."""
    if database.properties.text("type") != "FIRESTORE_NATIVE":
        yield "its type is not FIRESTORE_NATIVE"


@rule(
    "S05",
    "A Firestore database says what becomes of it with the stack",
    over=lambda facts: facts.of(DATABASE),
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.LOW,
    breaks="a destroyed stack leaves it behind, and cannot be created again",
    fix="Set deletionPolicy; the default abandons the database",
)
def s05(database: Resource, _: Context) -> Iterator[str]:
    """Said, whichever way."""
    if not database.properties.has("deletionPolicy"):
        yield "it does not say deletionPolicy"


@rule(
    "S06",
    "An object notification carries its payload",
    over=lambda facts: facts.of(NOTIFICATION),
    scope=Scope.RESOURCE,
    breaks="the worker cannot read which object the event is about",
    fix="Set payloadFormat to JSON_API_V1",
)
def s06(notification: Resource, _: Context) -> Iterator[str]:
    """The one format that workers read."""
    if notification.properties.text("payloadFormat") != "JSON_API_V1":
        yield "its payloadFormat is not JSON_API_V1"


@rule(
    "S07",
    "An object notification is for a prefix",
    over=lambda facts: facts.of(NOTIFICATION),
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="a worker is woken for objects that are not its own, its own results among them",
    fix="Set objectNamePrefix",
)
def s07(notification: Resource, _: Context) -> Iterator[str]:
    """A prefix that is not empty."""
    if not notification.properties.text("objectNamePrefix"):
        yield "it has no objectNamePrefix"


@rule(
    "S08",
    "Cloud Storage's agent may publish an object notification",
    over=lambda facts: facts.of(NOTIFICATION),
    breaks="the notification cannot be created, or no event arrives",
    fix="Grant roles/pubsub.publisher on the topic to Cloud Storage's service agent",
)
def s08(notification: Resource, context: Context) -> Iterator[str]:
    """The grant on the notification's topic."""
    topic = context.facts.source(notification, TOPIC, "topic")
    grants = context.facts.held_on(topic, notification.properties.known_text("topic"))
    if not any(_publishes(grant) for grant in grants):
        yield "Cloud Storage's agent has no unconditional grant to publish to its topic"


def _publishes(grant: Grant) -> bool:
    # An agent that is looked up is not known in a first preview.
    named = grant.agent == STORAGE_AGENT or grant.properties.known_text("member") is None
    return named and grant.properties.known_text("role") in _PUBLISHERS


@rule(
    "S09",
    "A SQL instance takes identities, not passwords",
    over=lambda facts: facts.of(SQL_INSTANCE),
    scope=Scope.RESOURCE,
    breaks="services need a password, which someone can copy",
    fix="Set the database flag cloudsql.iam_authentication to on",
)
def s09(instance: Resource, _: Context) -> Iterator[str]:
    """The flag that allows accounts as database users."""
    flags = instance.properties.sections("settings", "databaseFlags")
    names = {"cloudsql.iam_authentication", "cloudsql_iam_authentication"}
    if not any(flag.text("name") in names and flag.text("value") == "on" for flag in flags):
        yield "IAM authentication is off"


@rule(
    "S10",
    "A SQL instance has no public address",
    over=lambda facts: facts.of(SQL_INSTANCE),
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="the database can be reached from the internet",
    fix="Set ipConfiguration.ipv4Enabled to false, with a private network",
)
def s10(instance: Resource, _: Context) -> Iterator[str]:
    """The default is a public address."""
    if instance.properties.flag("settings", "ipConfiguration", "ipv4Enabled") is not False:
        yield "it has a public address"


@rule(
    "S11",
    "A bucket has one kind of permission, and none for everyone",
    over=lambda facts: facts.of(BUCKET),
    scope=Scope.RESOURCE,
    breaks="an object can be public although no grant says so",
    fix="Set uniformBucketLevelAccess to true and publicAccessPrevention to enforced",
)
def s11(bucket: Resource, _: Context) -> Iterator[str]:
    """No access control lists, no public access."""
    if not bucket.properties.flag("uniformBucketLevelAccess"):
        yield "uniformBucketLevelAccess is not set"
    if bucket.properties.text("publicAccessPrevention") != "enforced":
        yield "publicAccessPrevention is not enforced"


@rule(
    "S12",
    "One event of an object is told once",
    over=lambda facts: facts.of(NOTIFICATION),
    severity=Severity.MEDIUM,
    breaks="every event arrives twice, and two workers work on one object",
    fix="Keep one notification for each bucket, topic, event and prefix",
)
def s12(notification: Resource, context: Context) -> Iterator[str]:
    """Against each notification before it; one that leaves its events or its prefix out is for all of them."""
    for other in context.facts.of(NOTIFICATION):
        if other.urn == notification.urn:
            return
        if (
            _same(notification, other, "bucket")
            and _same(notification, other, "topic")
            and _overlap(notification, other)
        ):
            yield f"it tells the same events to the same topic as {other.name}"


def _same(one: Resource, other: Resource, name: str) -> bool:
    """Whether two resources have the same value, or one that came from the same resource."""
    values = one.properties.known_text(name), other.properties.known_text(name)
    if None not in values:
        return values[0] == values[1]
    return not set(one.came_from(name)).isdisjoint(other.came_from(name))


def _overlap(one: Resource, other: Resource) -> bool:
    """Whether both tell of one event of one object."""
    events, others = one.properties.texts("eventTypes"), other.properties.texts("eventTypes")
    if events and others and set(events).isdisjoint(others):
        return False
    prefix, another = one.properties.text("objectNamePrefix") or "", other.properties.text("objectNamePrefix") or ""
    return prefix.startswith(another) or another.startswith(prefix)


RULES: Final[tuple[Rule, ...]] = (s01, s02, s03, s04, s05, s06, s07, s08, s09, s10, s11, s12)
