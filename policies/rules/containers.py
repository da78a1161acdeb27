"""What Cloud Run runs, of whatever kind: images, memory and CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..properties import Properties, Unreadable
from ..resource import IMAGE_BUILD, RUN_JOB, SERVICE_V1, WORKER_POOL, Resource
from ..rule import Context, Level, Rule, Scope, Severity, rule
from ..workload import Workload

_DIGEST: Final = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}", re.ASCII)
MEBI: Final = 2**20
GIBI: Final = 2**30
MEMORY_DEFAULT: Final = 512 * MEBI
MEMORY_LEAST: Final = 128 * MEBI
MEMORY_LEAST_SECOND: Final = 512 * MEBI
MEMORY_MOST: Final = 32 * GIBI
"""Cloud Run: memory of a container, bytes; the least of a first and of a second generation."""
CPU_OF_MEMORY: Final = ((0, 4 * GIBI), (2, 8 * GIBI), (4, 16 * GIBI), (6, 24 * GIBI), (8, float("inf")))
"""Cloud Run: fewest CPU -> most memory that they may have."""
MEMORY_OF_CPU: Final = ((4, 2 * GIBI), (6, 4 * GIBI))
"""Cloud Run: CPU -> least memory from so many on."""
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|Ki|M|Mi|G|Gi|)", re.ASCII)
_UNITS: Final = {"": 1, "m": 1e-3, "k": 1e3, "Ki": 2**10, "M": 1e6, "Mi": MEBI, "G": 1e9, "Gi": GIBI}


@rule(
    "R01",
    "Images are named by digest",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    breaks="a tag moves and no deployment notices, or two instances of one revision differ",
    fix="Use NAME@sha256:DIGEST",
)
def r01(workload: Workload, _: Context) -> Iterator[str]:
    """Every container's image; one that is not known yet is R18's, and this rule's once it is."""
    for container in workload.containers:
        if _is_to_come(container):
            continue
        image = container.text("image")
        if image is None or not _DIGEST.fullmatch(image):
            yield f"{container.place('image')} names no digest"


@rule(
    "R18",
    "An image that is not known yet is one that the deployment builds",
    over=lambda facts: facts.workloads,
    breaks="a preview passes whatever the deployment will run",
    fix="Name the image by digest, or by the digest of an Image of docker-build",
)
def r18(workload: Workload, context: Context) -> Iterator[str]:
    """Of what comes from a build, R01 is asked in the deployment, before the service is touched."""
    builds = {build.urn for build in context.facts.of(IMAGE_BUILD)}
    for container in workload.containers:
        if _is_to_come(container) and builds.isdisjoint(workload.resource.came_from("template")):
            yield f"{container.place('image')} is not known yet, and comes from no build"


def _is_to_come(container: Properties) -> bool:
    return container.has("image") and container.known("image") is None


@rule(
    "R19",
    "A container's memory and CPU are a pair that the platform gives",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    breaks="the deployment is refused half-way, with everything before the service in place",
    fix=(
        "Give 128Mi to 32Gi, or 512Mi and more in the second generation; with 4 CPU at least 2Gi, with 6 or 8 at least "
        "4Gi; above 4Gi at least 2 CPU, above 8Gi 4, above 16Gi 6, above 24Gi 8"
    ),
)
def r19(workload: Workload, _: Context) -> Iterator[str]:
    """Cloud Run's "memory limits" and "CPU limits"; what is left out is the platform's 512 MiB and one CPU."""
    least = MEMORY_LEAST_SECOND if _is_of_second_generation(workload) else MEMORY_LEAST
    for container in workload.containers:
        memory = _amount(container, "memory", MEMORY_DEFAULT)
        cpu = _amount(container, "cpu", 1.0)
        needed = next(number for number, most in CPU_OF_MEMORY if memory <= most)
        wanted = max([least, *(memory for number, memory in MEMORY_OF_CPU if cpu >= number)])
        place = container.place("resources.limits")
        if memory > MEMORY_MOST:
            yield f"{place} has more memory than there is"
        elif cpu < needed:
            yield f"{place} has too little CPU for its memory, which takes {needed}"
        elif memory < wanted:
            yield f"{place} has too little memory, which must be {wanted // MEBI}Mi"


def _is_of_second_generation(workload: Workload) -> bool:
    """Jobs and worker pools always are; a service that does not say it may be of the first."""
    if workload.resource.type in {RUN_JOB, WORKER_POOL}:
        return True
    return workload.properties.text("template", "executionEnvironment") == "EXECUTION_ENVIRONMENT_GEN2"


def _amount(container: Properties, name: str, default: float) -> float:
    """Bytes of memory, or a number of CPU: `512Mi`, `2G`, `1000m`, `2`."""
    text = container.text("resources", "limits", name)
    if text is None:
        return default
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise Unreadable(container.place("resources", "limits", name), "it is no amount like 512Mi or 2")
    return float(match[1]) * _UNITS[match[2]]


@rule(
    "R20",
    "Services are of Cloud Run's second API",
    over=lambda facts: facts.of(SERVICE_V1),
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="most rules do not see the service: its timeouts, its callers, its probes and its ingress",
    fix="Declare it as cloudrunv2.Service",
)
def r20(_: Resource, __: Context) -> Iterator[str]:
    """Only images and variables are looked at in the first one."""
    yield "it is a service of the first API"


RULES: Final[tuple[Rule, ...]] = (r01, r18, r19, r20)
