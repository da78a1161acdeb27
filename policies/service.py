"""A Cloud Run service: its timeouts, its probes, its scaling, who may reach it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from .workload import Workload

TIMEOUT_DEFAULT: Final = 300
"""Cloud Run: request timeout of a service that names none, seconds."""
CONCURRENCY_DEFAULT: Final = 80
"""Cloud Run: requests at once of an instance that names none."""
INSTANCES_DEFAULT: Final = 100
"""Cloud Run: most instances of a service that names none."""

_HOST: Final = re.compile(r"https://([a-z][a-z0-9-]*)-([0-9]+)\.([a-z0-9-]+)\.run\.app(?=[/?#]|$)", re.ASCII)


class Service(Workload):
    """Facts about a service, read as they are asked for; what is absent is the platform's default."""

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
    def manual_instances(self) -> int | None:
        """Instances of a service that is scaled by hand, None of one that is not; no number means none."""
        if self.properties.text("scaling", "scalingMode") != "MANUAL":
            return None
        return self.properties.number("scaling", "manualInstanceCount") or 0

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
    def cpu_idle(self) -> bool:
        """Whether the CPU is taken away between requests; with `resources` but without `cpuIdle` it is not."""
        given = self.main.flag("resources", "cpuIdle")
        return not self.main.has("resources") if given is None else given

    def has_name_in(self, url: str) -> bool:
        """Whether a URL's host is this service's deterministic one, whatever the project's number, and in whatever
        region where the service names none.
        """
        match = _HOST.match(url)
        return match is not None and match[1] == self.name and self.location in {None, match[3]}

    @property
    def project_numbers(self) -> set[str]:
        """Numbers of its project, as its addresses of the deterministic form say."""
        return {match[2] for address in self.addresses if (match := _HOST.match(address)) and match[1] == self.name}

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


def host(url: str) -> str:
    """Host of a URL, in lower case."""
    return origin(url).partition("://")[2]


def origin(url: str) -> str:
    """Scheme and host of a URL, in lower case."""
    return "/".join(url.split("/")[:3]).lower()
