"""A Cloud Run service as the program declares it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import REQUEST_TIMEOUT_DEFAULT
from runtime.contract.names import service_host, service_url
from sandbox.cloud_run.egress import reaches_services
from sandbox.cloud_run.probe_settings import ProbeSettings, startup_default
from sandbox.provider.limits import at, seconds_of
from sandbox.world import Resource, World

COMMAND: Final = ("python", "-m", "runtime")
"""What every image runs, before the role."""
_ROLE: Final = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_PORT: Final = 8080
_CONCURRENCY: Final = 80
_INSTANCES_MAX: Final = 100


class ServiceMisdeclared(HoldfastError):
    """A declared service that cannot run here."""

    code = "service_misdeclared"


class Ingress(StrEnum):
    """Who may reach a service over the network."""

    ALL = "INGRESS_TRAFFIC_ALL"
    INTERNAL = "INGRESS_TRAFFIC_INTERNAL_ONLY"
    LOAD_BALANCER = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"


@dataclass(frozen=True, slots=True)
class Variable:
    """One declared environment variable: a value, or a version of a secret."""

    name: str
    value: str = ""
    secret: str | None = None
    version: str = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredService:
    """What the front needs to know of a service.

    Attributes:
        name: short name.
        host: its deterministic host.
        url: its deterministic address.
        revision: name of its present revision.
        ingress: who may reach it.
        checks_invoker: whether callers must prove that they hold `roles/run.invoker`.
        audiences: what a caller's token may be for: its address, and the declared custom audiences.
        timeout: seconds a request may take.
        concurrency: most requests of one instance at a time.
        min_instances: instances that are kept without requests.
        max_instances: most instances.
        account: email of the service account.
        covered: whether its calls to `run.app` go through its VPC, and so count as internal.
        role: what the image runs.
        variables: declared environment, in order.
        port: value of `PORT`.
        cpu_idle: whether the CPU is taken away between requests.
        startup, liveness, readiness: probes; None where none is declared.
    """

    name: str
    host: str
    url: str
    revision: str
    ingress: Ingress
    checks_invoker: bool
    audiences: frozenset[str]
    timeout: float
    concurrency: int
    min_instances: int
    max_instances: int
    account: str
    covered: bool
    role: str
    variables: tuple[Variable, ...]
    port: int
    cpu_idle: bool
    startup: ProbeSettings
    liveness: ProbeSettings | None
    readiness: ProbeSettings | None


def declared_service(resource: Resource, world: World) -> DeclaredService:
    """Reads a service of the world.

    Raises:
        ServiceMisdeclared: names the input, its value and what it must be.
    """
    inputs = resource.inputs
    name, region = resource.name, str(inputs.get("location") or world.region)
    template: Mapping[str, Any] = inputs.get("template") or {}
    container = _container(name, template)
    url = service_url(name, world.number, region)
    port = int(at(container, "ports.containerPort") or _PORT)
    scaling = template.get("scaling") or {}
    account = template.get("serviceAccount") or f"{world.number}-compute@developer.gserviceaccount.com"
    return DeclaredService(
        name=name,
        host=service_host(name, world.number, region),
        url=url,
        revision=str(resource.outputs.get("latestReadyRevision") or f"{name}-00001"),
        ingress=Ingress(inputs.get("ingress") or Ingress.ALL),
        checks_invoker=not inputs.get("invokerIamDisabled"),
        audiences=frozenset({url, *(inputs.get("customAudiences") or ())}),
        timeout=seconds_of(str(template.get("timeout") or "")) or float(REQUEST_TIMEOUT_DEFAULT),
        concurrency=int(template.get("maxInstanceRequestConcurrency") or _CONCURRENCY),
        min_instances=max(
            int(at(source, "minInstanceCount") or 0) for source in (scaling, inputs.get("scaling") or {})
        ),
        max_instances=int(scaling.get("maxInstanceCount") or _INSTANCES_MAX),
        account=str(account),
        covered=reaches_services(template.get("vpcAccess") or {}, world),
        role=_role(name, container),
        variables=tuple(_variable(row) for row in container.get("envs") or ()),
        port=port,
        cpu_idle=bool(at(container, "resources.cpuIdle")) if container.get("resources") is not None else True,
        startup=ProbeSettings.declared(container.get("startupProbe")) or startup_default(),
        liveness=ProbeSettings.declared(container.get("livenessProbe")),
        readiness=ProbeSettings.declared(container.get("readinessProbe")),
    )


def _container(name: str, template: Mapping[str, Any]) -> Mapping[str, Any]:
    containers: Sequence[Mapping[str, Any]] = template.get("containers") or ()
    if len(containers) != 1:
        raise ServiceMisdeclared(f"service {name} declares {len(containers)} containers; the sandbox runs exactly one")
    return containers[0]


def _role(name: str, container: Mapping[str, Any]) -> str:
    words = (*(container.get("commands") or ()), *(container.get("args") or ()))
    if len(words) != len(COMMAND) + 1 or words[:-1] != COMMAND or not _ROLE.fullmatch(str(words[-1])):
        shown = " ".join(map(str, words)) or "nothing"
        raise ServiceMisdeclared(f"service {name} runs {shown!r}; command and args must be `{' '.join(COMMAND)} ROLE`")
    return str(words[-1])


def _variable(row: Mapping[str, Any]) -> Variable:
    reference = at(row, "valueSource.secretKeyRef")
    if reference is None:
        return Variable(str(row["name"]), str(row.get("value") or ""))
    return Variable(
        str(row["name"]), secret=str(reference["secret"]), version=str(reference.get("version") or "latest")
    )
