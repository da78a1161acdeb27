"""What grants give: to each service what its work needs, on what it needs it on, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..facts import Facts
from ..grant import Grant
from ..resource import ACCOUNT, Resource
from ..rule import Context, Level, Option, Rule, Severity, rule
from ..workload import Role
from .grants import BASIC

_TELLING: Final = (
    "roles/artifactregistry.reader",
    "roles/cloudtrace.agent",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/telemetry.tracesWriter",
)
"""Roles with which a service takes its image and says what it does."""
_READING: Final = "roles/secretmanager.secretAccessor"
_SPEAKING: Final = frozenset(
    {
        "roles/iam.serviceAccountAdmin",
        "roles/iam.serviceAccountKeyAdmin",
        "roles/iam.serviceAccountOpenIdTokenCreator",
        "roles/iam.serviceAccountTokenCreator",
        "roles/iam.workloadIdentityUser",
    }
)
"""Roles on an account with which a member gets its tokens, or gets itself such a role."""
_STATE: Final = "roles/datastore.user"
_SQL: Final = ("roles/cloudsql.client", "roles/cloudsql.instanceUser")
_PROJECT_ROLES: Final = tuple(sorted((*_TELLING, *_SQL, _STATE)))
"""Roles that exist on a project only, or that services need on it."""
_PROJECT: Final = Option("roles that may be granted on a whole project", _PROJECT_ROLES)
_ON_ONE: Final = "Grant it on the one topic, bucket, secret or service; or add the role to this rule's `project_roles`"


def _on_project(*roles: str) -> set[tuple[str, str]]:
    return {(role, "projects/") for role in roles}


NEEDED: Final[Mapping[Role, set[tuple[str, str]]]] = {
    Role.EXECUTOR: _on_project(*_TELLING),
    Role.WORKER: {
        *_on_project(*_TELLING, *_SQL, _STATE),
        ("roles/storage.objectAdmin", "storage/bucket"),
    },
    Role.API: {
        *_on_project(*_TELLING, _STATE),
        ("roles/pubsub.publisher", "pubsub/topic"),
        (_READING, "secretmanager/secret"),
        ("roles/run.invoker", "cloudrunv2/service"),
        ("roles/iam.serviceAccountTokenCreator", "serviceaccount/"),
    },
}
"""What a service does -> roles that it needs, with the kind of what they are on. An API signs in its own name only."""


@rule(
    "I15",
    "What the program runs as has its roles on the resources that it needs them on",
    over=lambda facts: [each for each in facts.grants if each.is_wide and each.email in facts.identities],
    breaks="the account can do the same to everything else in the project",
    fix=_ON_ONE,
    options={"project_roles": _PROJECT},
)
def i15(grant: Grant, context: Context) -> Iterator[str]:
    """Accounts of services, pushes and scheduler jobs have only roles that belong there on a whole project."""
    yield from _too_wide(grant, context)


def _too_wide(grant: Grant, context: Context) -> Iterator[str]:
    role = grant.role
    if role is not None and role not in BASIC and not context.lists("project_roles", role):
        yield f"it grants {role} on everything in the project"


@rule(
    "I16",
    "A push or scheduler identity can do nothing but call its service",
    over=lambda facts: facts.grants,
    breaks="a token that leaves the platform is worth more than the one call it is for",
    fix="Remove the grant, or give the identity that needs it to a service",
)
def i16(grant: Grant, context: Context) -> Iterator[str]:
    """Calling identities have no other role."""
    running = {context.facts.runs_as(workload) for workload in context.facts.workloads}
    if grant.email in context.facts.calling - running and grant.role != "roles/run.invoker":
        yield f"it grants {grant.role} to an identity that only calls"


@rule(
    "I17",
    "Nobody has more than the work needs",
    over=lambda facts: facts.grants,
    severity=Severity.CRITICAL,
    breaks="who takes over one service, or one person, can sign jobs, read secrets, or speak as another service",
    fix=(
        "Remove the grant; or name a role that the jobs need in this rule's `further_roles`, and who looks after a "
        "resource in its `administrators`"
    ),
    options={
        "further_roles": Option("roles that services of Holdfast may have as well; * stands for any text", ()),
        "administrators": Option("members that may rule a resource or read a secret; * stands for any text", ()),
    },
)
def i17(grant: Grant, context: Context) -> Iterator[str]:
    """Roles of our services, of who rules one resource or reads a secret of theirs, of who speaks for another."""
    yield from _beyond_the_work(grant, context)
    if grant.role in _SPEAKING and not grant.agent.startswith("gcp-sa-"):
        signed_for = context.facts.account_of(grant)
        if grant.is_wide or (signed_for in context.facts.identities and signed_for != grant.email):
            yield "its member may speak in the name of another account"


def _beyond_the_work(grant: Grant, context: Context) -> Iterator[str]:
    role, facts = grant.role or "", context.facts
    does = [each.role for each in facts.workloads if each.role and grant.email and facts.runs_as(each) == grant.email]
    if does:
        is_too_wide = grant.is_wide and role not in _PROJECT_ROLES  # which is I15's
        is_needed = any((role, grant.kind) in NEEDED[each] for each in does)
        if not is_too_wide and not is_needed and not context.lists("further_roles", role):
            yield f"it grants {role} to an account whose service does not need it"
    elif grant.is_wide or context.lists("administrators", grant.member):
        return
    elif role.endswith(".admin"):
        yield f"it grants {role}"
    elif role == _READING and (grant.target or "").rpartition("/")[2] in _secrets(facts):
        yield "its member may read a secret that a service of Holdfast takes"


def _secrets(facts: Facts) -> set[str]:
    """Short names of the secrets that services of ours take."""
    return {name for each in facts.workloads if each.role is not None for name in each.known_secrets}


@rule(
    "I18",
    "A role is granted on the resource that it is needed on",
    over=lambda facts: [each for each in facts.grants if each.is_wide and each.email not in facts.identities],
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="the member can do the same to everything else in the project",
    fix=_ON_ONE,
    options={"project_roles": _PROJECT},
)
def i18(grant: Grant, context: Context) -> Iterator[str]:
    """What I15 asks of the program's own accounts, as an advice for everyone else."""
    yield from _too_wide(grant, context)


@rule(
    "I19",
    "An account that something runs, pushes or calls as is enabled",
    over=lambda facts: [each for each in facts.of(ACCOUNT) if facts.email_of(each) in facts.identities],
    breaks="no token is made for it: every push and call is refused, and no instance starts",
    fix="Remove disabled, or use another account",
)
def i19(account: Resource, _: Context) -> Iterator[str]:
    """Grants on a disabled account, and to it, have no effect."""
    if account.properties.flag("disabled"):
        yield "it is disabled"


RULES: Final[tuple[Rule, ...]] = (i15, i16, i17, i18, i19)
