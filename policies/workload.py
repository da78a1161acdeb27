"""What Cloud Run runs, of whatever kind: its containers, its environment, what it does for the jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from .properties import Properties, Unreadable
from .resource import RUN_JOB, SERVICE, SERVICE_V1, WORKER_POOL, Facet

_WHOLE: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_TEMPLATE: Final[Mapping[str, tuple[str, ...]]] = {
    SERVICE: ("template",),
    WORKER_POOL: ("template",),
    RUN_JOB: ("template", "template"),
    SERVICE_V1: ("template", "spec"),
}
"""Type -> where the containers and their account are named."""
KINDS: Final = tuple(_TEMPLATE)
"""Types of what Cloud Run runs."""


class Role(StrEnum):
    """What a service does for the jobs, as its container says."""

    WORKER = "worker"
    """Takes pushed messages."""
    EXECUTOR = "executor"
    """Runs jobs that a caller waits for."""
    API = "api"
    """Takes runs, and callbacks of those who work on them."""


_MARKERS: Final = {
    Role.WORKER: ("GCP_QUEUE_WORKLOAD",),
    Role.EXECUTOR: ("EXECUTOR_SERVER_MODE",),
    Role.API: ("API_REQUEST_TIMEOUT_SECS", "EXECUTION_TOPIC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable of a container.

    Attributes:
        name: its name.
        properties: `value`, or where it comes from.
    """

    name: str
    properties: Properties

    @property
    def is_literal(self) -> bool:
        """Whether the value stands in the resource, known or not."""
        return self.properties.has("value") and not any(
            self.properties.has(source) for source in ("valueSource", "valueFrom")
        )

    @property
    def is_secret(self) -> bool:
        """Whether the value comes from the secret manager."""
        return any(self.properties.has(source, "secretKeyRef") for source in ("valueSource", "valueFrom"))

    @property
    def secret(self) -> str | None:
        """Name of its secret, None where it has none or it is not known."""
        places = (("valueSource", "secretKeyRef", "secret"), ("valueFrom", "secretKeyRef", "name"))
        return next((text for place in places if (text := self.properties.known_text(*place))), None)

    @property
    def has_version(self) -> bool:
        """Whether it names the version of its secret, known or not."""
        return any(self.properties.has(*place) for place in _VERSIONS)

    @property
    def version(self) -> str | None:
        """The version of its secret, None where it names none or it is not known."""
        return next((text for place in _VERSIONS if (text := self.properties.known_text(*place))), None)


_VERSIONS: Final = (("valueSource", "secretKeyRef", "version"), ("valueFrom", "secretKeyRef", "key"))


class Workload(Facet):
    """Facts about a service, a job or a worker pool, read as they are asked for."""

    @property
    def containers(self) -> list[Properties]:
        """Its containers."""
        return self.properties.sections(*_TEMPLATE[self.resource.type], "containers")

    @property
    def main(self) -> Properties:
        """The container that takes the requests: the first with a port, or else the first."""
        containers = self.containers
        serving = [container for container in containers if container.has("ports")] or containers
        if not serving:
            raise Unreadable("template.containers", "there is none")
        return serving[0]

    @property
    def account_place(self) -> tuple[str, ...]:
        """Where the account is named that it runs as."""
        name = "serviceAccountName" if self.resource.type == SERVICE_V1 else "serviceAccount"
        return (*_TEMPLATE[self.resource.type], name)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables of all containers, in their order."""
        found = []
        for container in self.containers:
            for properties in container.sections("envs"):
                name = properties.text("name")
                if name is not None:
                    found.append(Variable(name=name, properties=properties))
        return tuple(found)

    @property
    def known_names(self) -> frozenset[str]:
        """Names of its variables, none where they are not known."""
        try:
            return frozenset(variable.name for variable in self.variables)
        except Unreadable:
            return frozenset()

    @property
    def known_secrets(self) -> frozenset[str]:
        """Short names of the secrets that its variables come from, none where they are not known."""
        try:
            return frozenset(variable.secret.rpartition("/")[2] for variable in self.variables if variable.secret)
        except Unreadable:
            return frozenset()

    def variable(self, name: str) -> str | None:
        """Value of a variable, None where it is absent. The last one of a name counts, as in the platform."""
        found = None
        for variable in self.variables:
            if variable.name == name:
                found = variable
        if found is None:
            return None
        if found.is_secret:
            raise Unreadable(name, "it comes from the secret manager")
        return found.properties.text("value") or ""

    def known_variable(self, name: str) -> str | None:
        """Like `variable`, with None also for what is not known."""
        try:
            return self.variable(name)
        except Unreadable:
            return None

    def whole(self, name: str) -> int | None:
        """A variable's whole number, None where the variable is absent."""
        value = self.variable(name)
        if value is None:
            return None
        if not _WHOLE.fullmatch(value):
            raise Unreadable(name, "it is no whole number")
        return int(value)

    @property
    def role(self) -> Role | None:
        """What it does, None where its container says nothing that is known here."""
        for role, markers in _MARKERS.items():
            if self.known_names.intersection(markers):
                return role
        try:
            args = self.main.texts("args")
        except Unreadable:
            return None
        return Role(args[-1]) if args and args[-1] in set(Role) else None
