"""Grants: to nobody in general, with no basic role, and never over another's head."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..grant import Grant
from ..resource import Resource
from ..rule import Context, Rule, Scope, Severity, rule

_ANYONE: Final = frozenset({"allusers", "allauthenticatedusers"})
BASIC: Final = frozenset({"roles/owner", "roles/editor", "roles/viewer"})
_AGENT: Final = re.compile(r"serviceaccount:service-(?P<id>[^@]*)@gcp-sa-[a-z-]+\.iam\.gserviceaccount\.com", re.ASCII)


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
    if grant.role in BASIC:
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


RULES: Final[tuple[Rule, ...]] = (i11, i12, i13, i14)
