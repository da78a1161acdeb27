"""A Cloud Run service of one of our roles: what every role's service has in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.alignment import STARTUP_FAILURES, STARTUP_PERIOD
from infra.naming import labels
from infra.settings import StackSettings
from runtime.contract import names
from runtime.contract.settings.render import in_seconds
from runtime.contract.settings.shared import PLATFORM_VARIABLES

PORT: Final = 8080
"""The container's one port; the platform tells the process by itself."""
_PROBE_PERIOD: Final = 10
_PROBE_TIMEOUT: Final = 5
_LIVENESS_FAILURES: Final = 3
_READINESS_FAILURES: Final = 2
"""One probe that fails by chance must not empty a service that has a single instance."""


class Ingress(StrEnum):
    """From where a service takes traffic."""

    ALL = "INGRESS_TRAFFIC_ALL"
    """From everywhere."""
    INTERNAL = "INGRESS_TRAFFIC_INTERNAL_ONLY"
    """From inside the project, which Pub/Sub's pushes and calls through its VPC are."""
    LOAD_BALANCER = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
    """From inside the project, and from its load balancers."""


@dataclass(frozen=True, kw_only=True)
class SecretSource:
    """A version of a secret, by its number, so that all instances of a revision have the same value."""

    secret: pulumi.Input[str]
    version: pulumi.Input[str]


@dataclass(frozen=True, kw_only=True)
class ServiceArgs:
    """What differs between services.

    Attributes:
        settings: the stack's.
        image: what runs, by digest.
        role: `worker`, `api` or `executor`: what the container runs.
        part: value of the label `part`.
        name: physical name.
        account: e-mail of the service's own account.
        environment: rendered settings of the role.
        secrets: variables that come from the secret manager.
        timeout: request timeout.
        concurrency: requests that one instance takes at once.
        min_instances: instances that are always there.
        max_instances: most instances.
        cpu: whole CPUs.
        memory: memory limit.
        cpu_idle: True takes the CPU away between requests.
        ingress: from where it takes traffic.
        invoker_check: True lets the platform check callers; False leaves that to the role.
        vpc_access: how its traffic enters a VPC; None: none does.
    """

    settings: StackSettings
    image: pulumi.Input[str]
    role: str
    part: str
    name: str
    account: pulumi.Input[str]
    environment: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, SecretSource] = field(default_factory=dict)
    timeout: timedelta
    concurrency: int
    min_instances: int
    max_instances: int
    cpu: str
    memory: str
    cpu_idle: bool
    ingress: Ingress
    invoker_check: bool
    vpc_access: gcp.cloudrunv2.ServiceTemplateVpcAccessArgs | None = None


def create_service(name: str, args: ServiceArgs, opts: pulumi.ResourceOptions) -> gcp.cloudrunv2.Service:
    """Declares the service of a role."""
    settings = args.settings
    return gcp.cloudrunv2.Service(
        name,
        name=args.name,
        project=settings.project,
        location=settings.region,
        ingress=args.ingress,
        invoker_iam_disabled=not args.invoker_check,
        custom_audiences=[settings.names.address(args.name)],
        deletion_protection=settings.deletion_protection,
        labels=labels(settings.stack, args.part),
        template=gcp.cloudrunv2.ServiceTemplateArgs(
            service_account=args.account,
            timeout=f"{in_seconds(args.timeout)}s",
            max_instance_request_concurrency=args.concurrency,
            scaling=gcp.cloudrunv2.ServiceTemplateScalingArgs(
                min_instance_count=args.min_instances, max_instance_count=args.max_instances
            ),
            containers=[_container(args)],
            vpc_access=args.vpc_access,
            labels=labels(settings.stack, args.part),
        ),
        opts=opts,
    )


def _container(args: ServiceArgs) -> gcp.cloudrunv2.ServiceTemplateContainerArgs:
    return gcp.cloudrunv2.ServiceTemplateContainerArgs(
        image=args.image,
        commands=["python"],
        args=["-m", "runtime", args.role],
        envs=_variables(args.environment, args.secrets),
        ports=gcp.cloudrunv2.ServiceTemplateContainerPortsArgs(container_port=PORT),
        resources=gcp.cloudrunv2.ServiceTemplateContainerResourcesArgs(
            limits={"cpu": args.cpu, "memory": args.memory}, cpu_idle=args.cpu_idle, startup_cpu_boost=True
        ),
        startup_probe=gcp.cloudrunv2.ServiceTemplateContainerStartupProbeArgs(
            http_get=gcp.cloudrunv2.ServiceTemplateContainerStartupProbeHttpGetArgs(path=names.HEALTH_READY),
            initial_delay_seconds=0,
            period_seconds=STARTUP_PERIOD,
            timeout_seconds=STARTUP_PERIOD,
            failure_threshold=STARTUP_FAILURES,
        ),
        liveness_probe=gcp.cloudrunv2.ServiceTemplateContainerLivenessProbeArgs(
            http_get=gcp.cloudrunv2.ServiceTemplateContainerLivenessProbeHttpGetArgs(path=names.HEALTH_LIVE),
            period_seconds=_PROBE_PERIOD,
            timeout_seconds=_PROBE_TIMEOUT,
            failure_threshold=_LIVENESS_FAILURES,
        ),
        readiness_probe=gcp.cloudrunv2.ServiceTemplateContainerReadinessProbeArgs(
            http_get=gcp.cloudrunv2.ServiceTemplateContainerReadinessProbeHttpGetArgs(path=names.HEALTH_READY),
            period_seconds=_PROBE_PERIOD,
            timeout_seconds=_PROBE_TIMEOUT,
            failure_threshold=_READINESS_FAILURES,
            success_threshold=1,
        ),
    )


def _variables(
    environment: Mapping[str, str], secrets: Mapping[str, SecretSource]
) -> list[gcp.cloudrunv2.ServiceTemplateContainerEnvArgs]:
    """Sorted, because any other order is a change to the platform; without what the platform sets by itself."""
    variables = []
    for name in sorted((environment.keys() - PLATFORM_VARIABLES) | secrets.keys()):
        if name in secrets:
            source = gcp.cloudrunv2.ServiceTemplateContainerEnvValueSourceArgs(
                secret_key_ref=gcp.cloudrunv2.ServiceTemplateContainerEnvValueSourceSecretKeyRefArgs(
                    secret=secrets[name].secret, version=secrets[name].version
                )
            )
            variables.append(gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(name=name, value_source=source))
        else:
            variables.append(gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(name=name, value=environment[name]))
    return variables


def confirmed_address(service: gcp.cloudrunv2.Service, expected: str) -> pulumi.Output[str]:
    """The service's deterministic address, once the platform serves it; see `confirmed`."""
    return service.urls.apply(lambda urls: confirmed(urls, expected))


def confirmed(served: Sequence[str], expected: str) -> str:
    """The expected address, where the platform serves it or does not say.

    Raises:
        RunError: the platform serves other addresses, which a wrong project number would explain.
    """
    if served and expected not in served:
        raise pulumi.RunError(
            f"{expected} is not among the service's addresses ({', '.join(served)}), so nothing would reach it; "
            "compare holdfast:project_number with `gcloud projects describe PROJECT`"
        )
    return expected
