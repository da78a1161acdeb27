"""A grant: one role for one member on one resource."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .resource import Facet, Resource

PUBSUB_AGENT: Final = re.compile(r"serviceAccount:service-[0-9]+@gcp-sa-pubsub\.iam\.gserviceaccount\.com", re.ASCII)
"""Pub/Sub's own service agent, by the number of the project."""
_TARGETS: Final = (
    "topic", "subscription", "serviceAccountId", "bucket", "secretId", "repository", "service", "queue", "name",
)  # fmt: skip
"""Properties that name the resource a grant is on, by type of grant."""
_WIDE: Final = re.compile(r"gcp:(?:projects|folder|organizations)/\w+:\w+", re.ASCII)


@dataclass(frozen=True)
class Grant(Facet):
    """Facts about a grant.

    Attributes:
        resource: the grant.
        member: who gets the role; the URN of an account where its e-mail is not known yet; "" where neither is.
    """

    member: str

    @property
    def role(self) -> str | None:
        """The role."""
        return self.properties.text("role")

    @property
    def is_wide(self) -> bool:
        """Whether it is on a whole project, folder or organisation."""
        return _WIDE.fullmatch(self.resource.type) is not None

    @property
    def is_for_pubsub(self) -> bool:
        """Whether it is for Pub/Sub's agent."""
        return PUBSUB_AGENT.fullmatch(self.member) is not None

    def is_on(self, resource: Resource) -> bool:
        """Whether it is on a resource, and on nothing wider."""
        if self.is_wide:
            return False
        if resource.urn in self.resource.came_from(*_TARGETS):
            return True
        target = next((text for name in _TARGETS if (text := self.properties.known_text(name))), None)
        if target is None:
            return False
        if target == resource.full_name:
            return True
        own = resource.properties.known_text("name")
        return self._is_about(resource) and (target == own or resource.may_be(target))

    def _is_about(self, resource: Resource) -> bool:
        """Whether a short name can mean this type of resource."""
        return resource.type.rpartition(":")[2].lower() in self.resource.type.lower()
