"""Who a service is, and who may call it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..facts import Facts
from ..resource import ACCOUNT_KEY, SCHEDULER_JOB, Resource
from ..rule import Context, Option, Rule, Scope, Severity, rule
from ..service import Service
from ..subscription import Delivery, Subscription
from ..workload import Role

_DEFAULT_ACCOUNT: Final = re.compile(
    r"[0-9]+-compute@developer\.gserviceaccount\.com|[^@]+@appspot\.gserviceaccount\.com", re.ASCII
)
_INVOKER: Final = "roles/run.invoker"
PUBLIC: Final = Option("names of the services that anyone may call; * stands for any text", ())


def _checked(facts: Facts) -> list[Delivery]:
    return [delivery for delivery in facts.deliveries if delivery.service.known_names or delivery.service.name]


def _invokes(context: Context, service: Service, identity: str) -> bool:
    """Whether an account may always call a service."""
    held = context.facts.held_on(service.resource)
    return any(grant.email == identity and grant.properties.known_text("role") == _INVOKER for grant in held)


@rule(
    "I01",
    "A service runs as an account of its own",
    over=lambda facts: facts.services,
    breaks="a service can do what another was granted, and so can whoever takes it over",
    fix="Give it a service account that no other service has",
)
def i01(service: Service, context: Context) -> Iterator[str]:
    """An account is named, is not the platform's default, and is not shared."""
    account = context.facts.runs_as(service)
    if not account:
        if service.properties.text(*service.account_place) is None:
            yield "it names no serviceAccount, so it runs as the project's default account"
        return
    if _DEFAULT_ACCOUNT.fullmatch(account):
        yield "it runs as the project's default account"
    others = [each for each in context.facts.services if each.urn != service.urn]
    sharing = [other.name or other.resource.name for other in others if context.facts.runs_as(other) == account]
    if sharing:
        yield f"{', '.join(sharing)} runs as the same account"


@rule(
    "I02",
    "A push carries a token of an identity that only pushes",
    over=lambda facts: facts.pushes,
    severity=Severity.CRITICAL,
    breaks="the service cannot tell a message from a forged request",
    fix="Add pushConfig.oidcToken with a service account that no service runs as",
)
def i02(subscription: Subscription, context: Context) -> Iterator[str]:
    """A token, and whose."""
    if not subscription.properties.has("pushConfig", "oidcToken"):
        yield "it pushes without a token"
        return
    identity = context.facts.pushes_as(subscription)
    if not identity:
        subscription.properties.text("pushConfig", "oidcToken", "serviceAccountEmail")
        yield "its token names no account"
    elif any(context.facts.runs_as(service) == identity for service in context.facts.services):
        yield "it pushes as an account that a service runs as"


@rule(
    "I03",
    "A push identity may call the service that it pushes to",
    over=_checked,
    severity=Severity.CRITICAL,
    breaks="every push is answered 403, and every message becomes a dead letter",
    fix="Grant roles/run.invoker on the service to the push identity",
)
def i03(delivery: Delivery, context: Context) -> Iterator[str]:
    """The invoker grant, where the platform checks."""
    if not delivery.service.checks_invokers:
        return
    identity = context.facts.pushes_as(delivery.subscription)
    if identity and not _invokes(context, delivery.service, identity):
        yield "its push identity has no unconditional roles/run.invoker on the service"


@rule(
    "I04",
    "Only those who push to a worker, or wait for an executor, may call it",
    over=lambda facts: [each for each in facts.services if each.role in {Role.WORKER, Role.EXECUTOR}],
    breaks="someone else can hand the worker messages that never were in the topic, or the executor jobs of others",
    fix="Remove the grant, or call the worker through its topic and the executor through the API",
)
def i04(service: Service, context: Context) -> Iterator[str]:
    """Invokers are the identities of its subscriptions and scheduler jobs, and of services that name its address."""
    allowed = context.facts.callers(service)
    for grant in context.facts.grants:
        is_invoker = grant.properties.known_text("role") == _INVOKER and grant.is_on(service.resource)
        if is_invoker and grant.email not in allowed:
            yield f"{grant.resource.name} lets someone call it who neither pushes to it nor names its address"


@rule(
    "I05",
    "Push mode and invoker check agree",
    over=lambda facts: [each for each in facts.services if "PUBSUB_PUSH_AUTH" in each.known_names],
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="either nobody checks a push token, or every push is refused",
    fix=(
        "With PUBSUB_PUSH_AUTH=platform leave the invoker check on; with in_process disable it and admit internal "
        "traffic only"
    ),
)
def i05(service: Service, _: Context) -> Iterator[str]:
    """One setting on both sides."""
    mode = service.variable("PUBSUB_PUSH_AUTH")
    if mode == "platform" and not service.checks_invokers:
        yield "PUBSUB_PUSH_AUTH is platform, but the invoker check is disabled"
    elif mode == "in_process" and service.checks_invokers:
        yield "PUBSUB_PUSH_AUTH is in_process, but the invoker check is on and replaces the token's signature"
    elif mode == "in_process" and service.ingress != "INGRESS_TRAFFIC_INTERNAL_ONLY":
        yield "PUBSUB_PUSH_AUTH is in_process, but traffic from outside is admitted"
    elif mode not in {"platform", "in_process"}:
        yield "PUBSUB_PUSH_AUTH is neither platform nor in_process"


@rule(
    "I06",
    "Only services named as public go without an invoker check",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="anyone who can reach the service may call it",
    fix="Set invokerIamDisabled to false, or name the service in this rule's `public_services`",
    options={"public_services": PUBLIC},
)
def i06(service: Service, context: Context) -> Iterator[str]:
    """A worker that checks tokens by itself is no public service: its traffic is internal."""
    if service.checks_invokers or context.lists("public_services", service.name):
        return
    if service.known_variable("PUBSUB_PUSH_AUTH") != "in_process":
        yield "the invoker check is disabled, and it is not named as public"


@rule(
    "I07",
    "Pub/Sub's agent may sign tokens in the name of a push identity",
    over=lambda facts: [each for each in facts.pushes if each.properties.has("pushConfig", "oidcToken")],
    severity=Severity.CRITICAL,
    breaks="pushes carry no token, and nothing is delivered",
    fix=(
        "Grant roles/iam.serviceAccountTokenCreator on the push identity to "
        "serviceAccount:service-PROJECTNUMBER@gcp-sa-pubsub.iam.gserviceaccount.com"
    ),
)
def i07(subscription: Subscription, context: Context) -> Iterator[str]:
    """The grant on the identity, which is not the identity's grant on itself."""
    identity = context.facts.pushes_as(subscription)
    signing = (grant for grant in context.facts.held if grant.is_for_pubsub and grant.is_for_signing)
    if identity and not any(grant.is_wide or context.facts.account_of(grant) == identity for grant in signing):
        yield "Pub/Sub's agent has no unconditional grant to sign tokens in the name of its push identity"


@rule(
    "I08",
    "No service account has a key",
    over=lambda facts: facts.of(ACCOUNT_KEY),
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="whoever copies the key is the account, from anywhere and for years",
    fix="Remove it; services have their identity from the platform, and others use workload identity federation",
)
def i08(_: Resource, __: Context) -> Iterator[str]:
    """No key resource."""
    yield "it is a key of a service account"


@rule(
    "I09",
    "A scheduler job calls with a token",
    over=lambda facts: [each for each in facts.of(SCHEDULER_JOB) if each.properties.has("httpTarget")],
    scope=Scope.RESOURCE,
    breaks="the service cannot tell the scheduler from anyone else",
    fix="Add httpTarget.oidcToken with an account of its own and the service's address as audience",
)
def i09(job: Resource, _: Context) -> Iterator[str]:
    """A token with an account."""
    tokens = ("oidcToken", "oauthToken")
    if not any(job.properties.has("httpTarget", token, "serviceAccountEmail") for token in tokens):
        yield "it calls without a token"


@rule(
    "I10",
    "A scheduler job may call the service that it calls",
    over=lambda facts: [each for each in facts.of(SCHEDULER_JOB) if each.properties.has("httpTarget")],
    breaks="every call is answered 403, and what the job is for never happens",
    fix="Grant roles/run.invoker on the service to the job's identity",
)
def i10(job: Resource, context: Context) -> Iterator[str]:
    """The invoker grant, where the platform checks."""
    identity = context.facts.calls_as(job)
    for called, service in context.facts.calls:
        if called.urn != job.urn or not service.checks_invokers or not identity:
            continue
        if not _invokes(context, service, identity):
            yield "its identity has no unconditional roles/run.invoker on the service"


RULES: Final[Sequence[Rule]] = (i01, i02, i03, i04, i05, i06, i07, i08, i09, i10)
