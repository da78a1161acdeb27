"""Grants: no more than needed, to nobody in general, and never over another's head."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..grant import Grant
from ..resource import ACCOUNT, Resource
from ..rule import Context, Level, Option, Rule, Scope, Severity, rule
from ..workload import Role

_ANYONE: Final = frozenset({"allusers", "allauthenticatedusers"})
_BASIC: Final = frozenset({"roles/owner", "roles/editor", "roles/viewer"})
_AGENT: Final = re.compile(r"serviceaccount:service-(?P<id>[^@]*)@gcp-sa-[a-z-]+\.iam\.gserviceaccount\.com", re.ASCII)
_TELLING: Final = (
    "roles/artifactregistry.reader",
    "roles/cloudtrace.agent",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/telemetry.tracesWriter",
)
"""Roles with which a service takes its image and says what it does."""
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
        ("roles/secretmanager.secretAccessor", "secretmanager/secret"),
        ("roles/run.invoker", "cloudrunv2/service"),
        ("roles/iam.serviceAccountTokenCreator", "serviceaccount/"),
    },
}
"""What a service does -> roles that it needs, with the kind of what they are on. An API signs in its own name only."""


@rule(
    "I11",
    "No grant is for everyone",
    over=lambda facts: [each for each in facts.resources if each.is_grant or each.is_authoritative],
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="anyone on the internet has the role",
    fix="Grant to one account; a public service disables its invoker check instead",
)
def i11(resource: Resource, _: Context) -> Iterator[str]:
    """No allUsers, no allAuthenticatedUsers."""
    members = [resource.properties.known_text("member") or ""]
    listed = resource.properties.known("members")
    members += [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    found = sorted({member for member in members if member.lower() in _ANYONE})
    if found:
        yield f"it grants to {', '.join(found)}"


@rule(
    "I12",
    "No grant has a basic role",
    over=lambda facts: facts.grants,
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="the member can read, and mostly change, everything in the project",
    fix="Grant the roles that are needed, on the resources that they are needed on",
)
def i12(grant: Grant, _: Context) -> Iterator[str]:
    """No owner, editor or viewer."""
    if grant.role in _BASIC:
        yield f"it grants {grant.role}"


@rule(
    "I13",
    "Grants add to what others granted",
    over=lambda facts: [each for each in facts.resources if each.is_authoritative],
    scope=Scope.RESOURCE,
    breaks="other members lose the role, dead-letter and push grants among them, and stacks undo each other's work",
    fix="Use the IAMMember resource of the same kind",
)
def i13(_: Resource, __: Context) -> Iterator[str]:
    """No IAMBinding, no IAMPolicy."""
    yield "it sets all members of a role, or all roles"


@rule(
    "I14",
    "Members are spelled as the platform spells them",
    over=lambda facts: facts.grants,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="the grant fails, or is shown as a change for ever",
    fix="Spell e-mails in lower case, and Google's agents with the project's number, not its id",
)
def i14(grant: Grant, _: Context) -> Iterator[str]:
    """Lower case, and agents by number. A member that comes from a resource is spelled by the platform."""
    member = grant.properties.known_text("member")
    if member is None:
        return
    kind, _colon, email = member.partition(":")
    agent = _AGENT.fullmatch(member.lower())
    if agent is not None and not agent["id"].isdecimal():
        yield "it names an agent of Google's by the project's id"
    elif kind in {"serviceAccount", "user", "group"} and email != email.lower():
        yield "its member is not in lower case"


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
    if role is not None and role not in _BASIC and not context.lists("project_roles", role):
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
        "administrators": Option("members that may have an admin role on a resource; * stands for any text", ()),
    },
)
def i17(grant: Grant, context: Context) -> Iterator[str]:
    """Roles of our services, of who looks after one resource, of who speaks for another."""
    yield from _beyond_the_work(grant, context)
    if grant.is_for_signing and not grant.agent.startswith("gcp-sa-"):
        signed_for = context.facts.account_of(grant)
        if grant.is_wide or (signed_for in context.facts.identities and signed_for != grant.email):
            yield "its member may sign in the name of another account"


def _beyond_the_work(grant: Grant, context: Context) -> Iterator[str]:
    role, facts = grant.role or "", context.facts
    does = [each.role for each in facts.workloads if each.role and grant.email and facts.runs_as(each) == grant.email]
    if does:
        is_too_wide = grant.is_wide and role not in _PROJECT_ROLES  # which is I15's
        is_needed = any((role, grant.kind) in NEEDED[each] for each in does)
        if not is_too_wide and not is_needed and not context.lists("further_roles", role):
            yield f"it grants {role} to an account whose service does not need it"
    elif not grant.is_wide and role.endswith(".admin") and not context.lists("administrators", grant.member):
        yield f"it grants {role}"


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


RULES: Final[tuple[Rule, ...]] = (i11, i12, i13, i14, i15, i16, i17, i18, i19)
