"""A grant: one role for one member on one resource."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .resource import Facet, Resource

PUBSUB_AGENT: Final = "gcp-sa-pubsub"
STORAGE_AGENT: Final = "gs-project-accounts"
_AGENT: Final = re.compile(r"serviceAccount:service-([0-9]+)@(g[a-z-]+)\.iam\.gserviceaccount\.com", re.ASCII)
"""An agent of Google's own, by the number of the project."""
_TARGETS: Final = (
    "topic", "subscription", "serviceAccountId", "bucket", "secretId", "repository", "service", "queue", "name",
)  # fmt: skip
"""Properties that name the resource a grant is on, by type of grant."""
_SIGNING: Final = frozenset({"roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountOpenIdTokenCreator"})
_WIDE: Final = re.compile(r"gcp:(?:projects|folder|organizations)/\w+:\w+", re.ASCII)


@dataclass(frozen=True)
class Grant(Facet):
    """Facts about a grant.

    Attributes:
        resource: the grant.
        member: who gets the role; the URN of an account where its e-mail is not known yet; "" where neither is.
        numbers: numbers that the program's projects have, as far as it says; none: any may be right.
    """

    member: str
    numbers: frozenset[str]

    @property
    def role(self) -> str | None:
        """The role."""
        return self.properties.text("role")

    @property
    def is_wide(self) -> bool:
        """Whether it is on a whole project, folder or organisation."""
        return _WIDE.fullmatch(self.resource.type) is not None

    @property
    def email(self) -> str:
        """The service account that gets the role, in lower case; "" for another member."""
        kind, _, email = self.member.lower().partition(":")
        return email if kind == "serviceaccount" else ""

    @property
    def agent(self) -> str:
        """The agent of Google's own that gets the role, by its product; "" for others and for another project's."""
        match = _AGENT.fullmatch(self.member)
        return match[2] if match and (not self.numbers or match[1] in self.numbers) else ""

    @property
    def is_for_pubsub(self) -> bool:
        """Whether it is for Pub/Sub's agent."""
        return self.agent == PUBSUB_AGENT

    @property
    def is_for_signing(self) -> bool:
        """Whether its member may sign in the name of an account."""
        return self.properties.known_text("role") in _SIGNING

    @property
    def is_conditional(self) -> bool:
        """Whether it has a condition, which nothing here can evaluate: it may never apply."""
        return self.properties.has("condition")

    @property
    def kind(self) -> str:
        """What it is on, by its type: `pubsub/topic`, `storage/bucket`; `projects/` and `serviceaccount/` alone."""
        return self.resource.type.split(":")[1].lower().removesuffix("iammember")

    @property
    def target(self) -> str | None:
        """Name of what it is on, None where it is not known."""
        return next((text for name in _TARGETS if (text := self.properties.known_text(name))), None)

    def is_on(self, resource: Resource) -> bool:
        """Whether it is on a resource, and on nothing wider."""
        if self.is_wide:
            return False
        if resource.urn in self.resource.came_from(*_TARGETS):
            return True
        target = self.target
        if target is None:
            return False
        if target == resource.full_name:
            return True
        own = resource.properties.known_text("name")
        return self._is_about(resource) and (target == own or resource.may_be(target))

    def _is_about(self, resource: Resource) -> bool:
        """Whether a short name can mean this type of resource."""
        return resource.type.rpartition(":")[2].lower() in self.resource.type.lower()
