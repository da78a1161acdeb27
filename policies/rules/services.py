"""How services run: probes, CPU, scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..properties import Properties
from ..resource import SCHEDULER_JOB, Resource
from ..rule import Context, Level, Option, Rule, Scope, Severity, rule
from ..service import Service
from ..workload import Role

READY: Final = "/health/ready"
LIVE: Final = "/health/live"
CAP: Final = 100
"""More instances than this are a mistake more often than a plan."""


@rule(
    "R02",
    "An executor always has its CPU",
    over=lambda facts: [each for each in facts.services if each.role is Role.EXECUTOR],
    scope=Scope.RESOURCE,
    breaks="callbacks and cancelled runs stand still between requests",
    fix="Set resources.cpuIdle to false",
)
def r02(service: Service, _: Context) -> Iterator[str]:
    """CPU between requests."""
    if service.cpu_idle:
        yield "its CPU is taken away between requests"


def _probed(service: Service, kind: str, path: str) -> Iterator[str]:
    probe = service.main.section(kind)
    if probe is None:
        yield f"it has no {kind}"
    else:
        yield from _on_path(service, probe, kind, path)


def _on_path(service: Service, probe: Properties, kind: str, path: str) -> Iterator[str]:
    """The path is ours only where the service is."""
    if service.role is not None and probe.text("httpGet", "path") != path:
        yield f"its {kind} does not ask {path}"


@rule(
    "R03",
    "A service is ready before it has traffic",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    breaks="a revision that cannot start takes the traffic, and the deployment reports success",
    fix=f"Add a startupProbe on {READY}",
)
def r03(service: Service, _: Context) -> Iterator[str]:
    """A startup probe."""
    yield from _probed(service, "startupProbe", READY)


@rule(
    "R04",
    "A service that hangs is replaced",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="an instance that hangs keeps its requests until they time out",
    fix=f"Add a livenessProbe on {LIVE}",
)
def r04(service: Service, _: Context) -> Iterator[str]:
    """A liveness probe, and not on the route that says no while draining."""
    yield from _probed(service, "livenessProbe", LIVE)


@rule(
    "R05",
    "A readiness probe asks for readiness",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="an instance that drains still gets requests",
    fix=f"Set readinessProbe.httpGet.path to {READY}",
)
def r05(service: Service, _: Context) -> Iterator[str]:
    """Where there is one; it is not required."""
    probe = service.main.section("readinessProbe")
    if probe is not None:
        yield from _on_path(service, probe, "readinessProbe", READY)


@rule(
    "R06",
    "A service says how far it scales",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="a burst spends the region's quota, the database's connections and the budget",
    fix="Set template.scaling.maxInstanceCount, or raise this rule's `max_instances`",
    options={"max_instances": Option("most instances that a service may have", CAP)},
)
def r06(service: Service, context: Context) -> Iterator[str]:
    """A ceiling, and a sane one; with manual scaling, the number alone counts."""
    if service.manual_instances is not None:
        if service.manual_instances > context.number("max_instances"):
            yield f"manualInstanceCount is {service.manual_instances}, but may be {context.number('max_instances')}"
        return
    most, least = service.declared_max_instances, service.properties.number("template", "scaling", "minInstanceCount")
    if most is None:
        yield "it has no maxInstanceCount"
    elif most > context.number("max_instances"):
        yield f"maxInstanceCount is {most}, but may be {context.number('max_instances')}"
    elif least is not None and least > most:
        yield f"minInstanceCount is {least}, but maxInstanceCount is {most}"


@rule(
    "R07",
    "A worker says how many messages one instance takes at once",
    over=lambda facts: [each for each in facts.services if each.role is Role.WORKER],
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="eighty jobs share one instance's memory, and one that dies takes them along",
    fix="Set template.maxInstanceRequestConcurrency",
)
def r07(service: Service, _: Context) -> Iterator[str]:
    """Concurrency of its own."""
    if not service.properties.number("template", "maxInstanceRequestConcurrency"):
        yield "it has no maxInstanceRequestConcurrency, so an instance takes 80 requests at once"


@rule(
    "R08",
    "A service limits its memory",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.LOW,
    breaks="it runs with the platform's 512 MiB, and is killed when a job needs more",
    fix="Set resources.limits.memory",
)
def r08(service: Service, _: Context) -> Iterator[str]:
    """A limit of its own."""
    if not service.main.has("resources", "limits", "memory"):
        yield "it has no memory limit of its own"


@rule(
    "R17",
    "A service of Holdfast is spoken to in HTTP/1.1",
    over=lambda facts: [each for each in facts.services if each.role is not None],
    scope=Scope.RESOURCE,
    breaks="the platform sends HTTP/2 to a server that does not speak it, and no request is answered",
    fix="Remove the port's name, or call it http1",
)
def r17(service: Service, _: Context) -> Iterator[str]:
    """The name of the port decides the protocol."""
    if service.main.text("ports", "name") == "h2c":
        yield "its port is called h2c"


@rule(
    "R21",
    "What is deployed is what runs",
    over=lambda facts: facts.services,
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="a deployment changes nothing: requests go to an older revision, or to none",
    fix="Remove traffics, or send some to TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST; scale automatically, or to 1 or more",
)
def r21(service: Service, _: Context) -> Iterator[str]:
    """Instances, and requests for the newest of them."""
    if service.manual_instances == 0:
        yield "it is scaled by hand to no instance"
    targets = [target for target in service.properties.sections("traffics") if target.number("percent")]
    if targets and not any(_is_deployed(service, target) for target in targets):
        yield "none of its traffic goes to the revision that is deployed"


def _is_deployed(service: Service, target: Properties) -> bool:
    revision = target.text("revision")
    return revision is None or revision == service.properties.text("template", "revision")


@rule(
    "R22",
    "A scheduler job is not paused",
    over=lambda facts: facts.of(SCHEDULER_JOB),
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="what it is for never happens: runs that were not published, or not finished, stay as they are",
    fix="Remove paused, or set this rule to disabled while it is meant",
)
def r22(job: Resource, _: Context) -> Iterator[str]:
    """It is called at all."""
    if job.properties.flag("paused"):
        yield "it is paused"


RULES: Final[tuple[Rule, ...]] = (r02, r03, r04, r05, r06, r07, r08, r17, r21, r22)
