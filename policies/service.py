"""A Cloud Run service: its timeouts, its environment, its probes, its scaling, who may reach it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from .properties import Properties, Unreadable
from .resource import Resource

TIMEOUT_DEFAULT: Final = 300
"""Cloud Run: request timeout of a service that names none, seconds."""
CONCURRENCY_DEFAULT: Final = 80
"""Cloud Run: requests at once of an instance that names none."""
INSTANCES_DEFAULT: Final = 100
"""Cloud Run: most instances of a service that names none."""

_WHOLE: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_HOST: Final = re.compile(r"https://([a-z][a-z0-9-]*)-([0-9]+)\.([a-z0-9-]+)\.run\.app(?=[/?#]|$)", re.ASCII)


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
        properties: `value`, or `valueSource`.
    """

    name: str
    properties: Properties

    @property
    def is_literal(self) -> bool:
        """Whether the value stands in the resource, known or not."""
        return self.properties.has("value") and not self.properties.has("valueSource")

    @property
    def is_secret(self) -> bool:
        """Whether the value comes from the secret manager."""
        return self.properties.has("valueSource", "secretKeyRef")


@dataclass(frozen=True)
class Service:
    """Facts about a service, read as they are asked for; what is absent is the platform's default."""

    resource: Resource

    @property
    def urn(self) -> str:
        """URN of the resource."""
        return self.resource.urn

    @property
    def properties(self) -> Properties:
        """All of its properties."""
        return self.resource.properties

    @property
    def name(self) -> str | None:
        """Physical name, None where it is absent or not known."""
        return self.properties.known_text("name")

    @property
    def location(self) -> str | None:
        """Region, None where it is absent or not known."""
        return self.properties.known_text("location")

    @property
    def timeout(self) -> int:
        """Request timeout, seconds."""
        given = self.properties.seconds("template", "timeout")
        return TIMEOUT_DEFAULT if given is None else given

    @property
    def concurrency(self) -> int:
        """Requests that one instance takes at once."""
        return self.properties.number("template", "maxInstanceRequestConcurrency") or CONCURRENCY_DEFAULT

    @property
    def declared_max_instances(self) -> int | None:
        """Most instances of the template, or of the whole service, None where neither says."""
        own = self.properties.number("template", "scaling", "maxInstanceCount")
        return self.properties.number("scaling", "maxInstanceCount") if own is None else own

    @property
    def is_internal(self) -> bool:
        """Whether only traffic from inside the project, or through its load balancer, is admitted."""
        return self.ingress in {"INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"}

    @property
    def ingress(self) -> str:
        """Whose traffic is admitted."""
        return self.properties.text("ingress") or "INGRESS_TRAFFIC_ALL"

    @property
    def checks_invokers(self) -> bool:
        """Whether the platform asks callers for a token."""
        return not self.properties.flag("invokerIamDisabled")

    @property
    def containers(self) -> list[Properties]:
        """Its containers; the first with a port, or the only one, takes the requests."""
        return self.properties.sections("template", "containers")

    @property
    def main(self) -> Properties:
        """The container that takes the requests."""
        containers = self.containers
        serving = [container for container in containers if container.has("ports")] or containers
        if not serving:
            raise Unreadable("template.containers", "there is none")
        return serving[0]

    @property
    def cpu_idle(self) -> bool:
        """Whether the CPU is taken away between requests; with `resources` but without `cpuIdle` it is not."""
        given = self.main.flag("resources", "cpuIdle")
        return not self.main.has("resources") if given is None else given

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

    @property
    def account(self) -> str | None:
        """E-mail of the account that it runs as, None for the platform's default account."""
        return self.properties.text("template", "serviceAccount")

    def has_name_in(self, url: str) -> bool:
        """Whether a URL's host is this service's deterministic one, whatever the project's number, and in whatever
        region where the service names none.
        """
        match = _HOST.match(url)
        return match is not None and match[1] == self.name and self.location in {None, match[3]}

    @property
    def addresses(self) -> Sequence[str]:
        """Addresses that are known: what the platform says, or a custom audience of the deterministic form."""
        said = [self.properties.known_text("uri")]
        urls = self.properties.known("urls")
        said += [url for url in urls if isinstance(url, str)] if isinstance(urls, list) else []
        audiences = self.properties.known("customAudiences")
        listed = [text for text in audiences if isinstance(text, str)] if isinstance(audiences, list) else []
        said += [text for text in listed if self.has_name_in(text)]
        return [text for text in said if text]


def origin(url: str) -> str:
    """Scheme and host of a URL, in lower case."""
    return "/".join(url.split("/")[:3]).lower()
