"""Cloud Run services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.contract.names import service_url
from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings, account_missing
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, lasts, matches, one_of
from sandbox.provider.products.container_size import size_failures
from sandbox.provider.products.probes import STARTUP_DEFAULT, probe_failures, with_probe_defaults
from sandbox.provider.unknown import is_unknown
from sandbox.world import SECRET, SERVICE, Resource, World

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,47}[a-z0-9])?", re.ASCII)
_NAME_RULE: Final = "1 to 49 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_RESERVED: Final = frozenset({"PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION"})
_INGRESS: Final = (
    "INGRESS_TRAFFIC_ALL",
    "INGRESS_TRAFFIC_INTERNAL_ONLY",
    "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
)
_REGISTRY: Final = re.compile(r"(?:[a-z0-9-]+\.)?gcr\.io|(?:[a-z0-9-]+-)?docker\.pkg\.dev|docker\.io", re.ASCII)
_PORT: Final = 8080


def _named(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _defaults(inputs: Inputs) -> dict[str, Any]:
    template = dict(inputs["template"])
    containers = [_container_defaults(container) for container in template.get("containers", [])]
    cpu = str(at(containers[0], "resources.limits.cpu")) if containers else "1"
    whole_cpu = not (cpu.endswith("m") and float(cpu[:-1]) < 1000)
    concurrency = template.get("maxInstanceRequestConcurrency") or (80 if whole_cpu else 1)
    return {
        "ingress": _INGRESS[0],
        "invokerIamDisabled": False,
        "deletionProtection": True,
        "launchStage": "GA",
        **inputs,
        "template": {
            "timeout": "300s",
            **template,
            "scaling": {"minInstanceCount": 0, "maxInstanceCount": 100, **template.get("scaling", {})},
            "maxInstanceRequestConcurrency": concurrency,
            "containers": containers,
        },
    }


def _container_defaults(container: Mapping[str, Any]) -> dict[str, Any]:
    given = container.get("resources")
    resources = {
        # Google leaves CPU allocated between requests where resources are given without saying so.
        "cpuIdle": given is None,
        "startupCpuBoost": False,
        **(given or {}),
        "limits": {"cpu": "1000m", "memory": "512Mi", **at(container, "resources.limits")}
        if at(container, "resources.limits")
        else {"cpu": "1000m", "memory": "512Mi"},
    }
    ports = {"containerPort": _PORT, "name": "http1", **container.get("ports", {})}
    probes = with_probe_defaults(container, ports["containerPort"])
    return {"startupProbe": STARTUP_DEFAULT, **container, **probes, "resources": resources, "ports": ports}


def _rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from one_of(inputs, "ingress", _INGRESS)
    yield from lasts(inputs, "template.timeout", 1, 3600)
    yield from in_range(inputs, "template.maxInstanceRequestConcurrency", 1, 1000)
    yield from in_range(inputs, "template.scaling.maxInstanceCount", 1, 1000)
    most = at(inputs, "template.scaling.maxInstanceCount")
    yield from in_range(inputs, "template.scaling.minInstanceCount", 0, 1000 if most is None else most)
    containers = at(inputs, "template.containers")
    if not containers:
        yield Failure("template.containers", "is empty; a service needs a container")
    for index, container in enumerate(containers):
        at_container = f"template.containers[{index}]"
        yield from _image(container, at_container)
        yield from _variables(container, f"{at_container}.envs")
        yield from probe_failures(container, at_container)
        sized = size_failures(container, at(inputs, "template.executionEnvironment"))
        for failure in (*sized, *in_range(container, "ports.containerPort", 1, 65535)):
            yield Failure(f"{at_container}.{failure.path}", failure.reason)


def _image(container: Mapping[str, Any], path: str) -> Iterator[Failure]:
    image = at(container, "image")
    host, slash, _ = str(image).partition("/")
    if image is not None and slash and set(".:") & set(host) and not _REGISTRY.fullmatch(host):
        rule = "is none of gcr.io, REGION-docker.pkg.dev and docker.io; take it through a remote repository"
        yield Failure(f"{path}.image", f"{image!r} is refused; {host} {rule}")


def _variables(container: Mapping[str, Any], path: str) -> Iterator[Failure]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("envs") or []):
        name = variable["name"]
        if is_unknown(name):
            continue
        if name in _RESERVED:
            yield Failure(f"{path}[{index}]", f"{name} is reserved by the platform; remove it")
        if not _VARIABLE.fullmatch(name):
            yield Failure(f"{path}[{index}]", f"{name!r} is not the name of a variable")
        if name in seen:
            yield Failure(f"{path}[{index}]", f"{name} is given twice")
        if variable.get("value") is not None and variable.get("valueSource") is not None:
            yield Failure(f"{path}[{index}]", f"{name} has both a value and a source")
        seen.add(name)


def _missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    if email := at(inputs, "template.serviceAccount"):
        yield from account_missing(email, "template.serviceAccount", world)
    for index, container in enumerate(at(inputs, "template.containers")):
        for variable in container.get("envs") or []:
            reference = at(variable, "valueSource.secretKeyRef")
            path = f"template.containers[{index}].envs.{variable['name']}"
            if not reference:
                continue
            secret, version = reference["secret"], str(reference.get("version", "latest"))
            if world.find(SECRET, secret) is None:
                yield Failure(path, f"secret {secret} does not exist")
            elif world.secret_version(secret, version) is None:
                yield Failure(path, f"secret {secret} has no version {version}")


def _computed(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
    uri = service_url(name, world.number, inputs["location"])
    labels = inputs.get("labels", {})
    return {
        "id": f"projects/{inputs['project']}/locations/{inputs['location']}/services/{name}",
        "uri": uri,
        "urls": [uri],
        "uid": f"uid-{name}",
        **_revision(name, 1),
        "reconciling": False,
        "effectiveLabels": labels,
        "pulumiLabels": labels,
    }


def _revised(before: Resource, outputs: dict[str, Any]) -> dict[str, Any]:
    """A changed template is a new revision."""
    number = int(str(before.outputs["latestReadyRevision"]).rsplit("-", 1)[-1])
    changed = before.inputs["template"] != outputs["template"]
    return {**outputs, **_revision(before.name, number + changed)}


def _revision(service: str, number: int) -> dict[str, str]:
    name = f"{service}-{number:05}"
    return {"latestReadyRevision": name, "latestCreatedRevision": name}


def _guard(resource: Resource) -> str | None:
    return "deletionProtection is true; deploy it as false first" if resource.inputs["deletionProtection"] else None


BEHAVIOURS: Final = {
    SERVICE: Behaviour(
        name=_named,
        auto_name="name",
        computed=_computed,
        defaults=_defaults,
        rules=_rules,
        missing=_missing,
        immutable=frozenset({"name", "location", "project"}),
        guard=_guard,
        revised=_revised,
    )
}
